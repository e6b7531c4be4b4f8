# KernelLab and its course in JupyterLab, with no GPU; docs/environments.md says how to use it.
#
#   docker build -t kernellab .
#   docker run --rm -p 127.0.0.1:8888:8888 -v kernellab-course:/home/student/course kernellab
FROM python:3.12-slim

# Only what the package is built from: changes elsewhere do not install torch again.
WORKDIR /usr/src/kernellab
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY kernellab kernellab
COPY notebooks notebooks
# Without the index, pip takes torch with CUDA on amd64: several GB.
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu .

# Notebooks run what is in them: not as root.
RUN useradd --create-home --uid 1000 student
USER student
WORKDIR /home/student
RUN kernellab workshop init course

EXPOSE 8888
# A volume may be new, or hold a course that somebody began: init adds what is missing, and no more.
CMD ["sh", "-c", "kernellab workshop init course && exec jupyter lab --ip=0.0.0.0 --no-browser --ServerApp.root_dir=course"]
