// Lays VS Code's page of outputs over JupyterLab's, whose connection to a kernel it uses (tests/viz/vscode.py).
async () => {
  const kernel = await jupyterapp.serviceManager.kernels.startNew({ name: "python3" });
  kernel.commsOverSubshells = "disabled"; // VS Code has no subshells

  for (const { name } of [...document.body.attributes]) document.body.removeAttribute(name);
  document.body.className = document.body.dataset.vscodeThemeKind = "vscode-light";

  const element = (parent, names) => {
    const made = document.createElement("div");
    made.className = names;
    parent.append(made);
    return made;
  };
  const container = element(document.body, "widgetarea");
  container.style = "position: fixed; inset: 0; z-index: 100000; overflow: auto; background: white";
  const style = document.createElement("style"); // of the extension's renderer
  style.textContent = ".cell-output-ipywidget-background { background: white !important; }";
  document.head.append(style);

  const script = document.createElement("script");
  script.src = "/vscode/require.js";
  await new Promise((loaded) => {
    script.onload = loaded;
    document.head.append(script);
  });
  delete globalThis["__ $YJS$ __"]; // JupyterLab's mark that a page has Yjs, of which the manager brings its own
  (await import("/vscode/ipywidgets.js")).activate();
  vscIPyWidgets8.load();
  const known = new Set();
  const manager = new vscIPyWidgets.WidgetManager(kernel, undefined, {
    widgetsRegisteredInRequireJs: known,
    loadWidgetScript: async (name) => {
      requirejs.config({ paths: { [name]: `/vscode/nbextensions/${name}/index` } });
      known.add(name);
    },
    errorHandler: (name, module, version, error) => console.error(`${name} of ${module} ${version}: ${error}`),
    successHandler: () => undefined,
  }, () => undefined);

  const WIDGET = "application/vnd.jupyter.widget-view+json";
  const show = async (cell, data) => {
    const output = element(element(cell, "output_container"), "output");
    if (data[WIDGET] !== undefined) {
      output.classList.add("cell-output-ipywidget-background");
      const inner = element(output, "cell-output-ipywidget-background");
      element(inner, "cell-output");
      const view = await manager.create_view(await manager.get_model(data[WIDGET].model_id), { el: inner });
      await manager.display_view(data[WIDGET], view, { node: inner });
    } else if (data["text/html"] !== undefined) output.innerHTML = data["text/html"];
    else output.textContent = data["text/plain"];
  };

  globalThis.runCell = async (code) => {
    const outputs = [];
    const future = kernel.requestExecute({ code });
    future.onIOPub = ({ header, content }) => {
      if (["display_data", "execute_result"].includes(header.msg_type)) outputs.push(content.data);
    };
    const { content } = await future.done;
    if (content.status !== "ok") throw new Error((content.traceback ?? [content.status]).join("\n"));
    const cell = element(container, "cell_container");
    for (const data of outputs) await show(cell, data);
  };
  globalThis.dropKernel = () => {
    manager.dispose();
    kernel.dispose();
  };
}
