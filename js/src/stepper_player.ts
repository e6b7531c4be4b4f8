// Plays the steps: a button, its speed, and the clock behind them.
import { button, choice } from "./dom";

const SPEEDS = [2, 4, 8];

export class Player {
  readonly button = button("▶ Play", "Play, or stop (Space)", () => this.toggle());
  readonly speed: HTMLSelectElement;
  private timer = 0;

  /** `onstep` makes a step, and returns whether there is more to play. */
  constructor(private readonly onstep: (isStart: boolean) => boolean) {
    this.button.classList.add("kl-play");
    this.speed = choice(
      "Steps a second",
      SPEEDS.map((one) => ({ value: String(one), words: `${one}/s` })),
      "4",
      () => this.timer !== 0 && this.start(),
    );
  }

  toggle(): void {
    if (this.timer !== 0) this.stop();
    else if (this.onstep(true)) this.start();
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = 0;
    this.show();
  }

  private start(): void {
    clearInterval(this.timer);
    this.timer = window.setInterval(
      () => {
        if (!this.onstep(false)) this.stop();
      },
      1000 / Number(this.speed.value),
    );
    this.show();
  }

  private show(): void {
    this.button.textContent = this.timer === 0 ? "▶ Play" : "■ Stop";
    this.button.setAttribute("aria-pressed", String(this.timer !== 0));
  }
}
