// A short line of how something went lately.

import { setAttr, svgEl } from "./dom.js";
import { sparkPath } from "./rates.js";

const WIDTH = 120;
const HEIGHT = 26;

export class Sparkline {
  constructor(label) {
    this.line = svgEl("path", { class: "spark-line" });
    this.area = svgEl("path", { class: "spark-area" });
    const box = `0 0 ${WIDTH} ${HEIGHT}`;
    this.node = svgEl(
      "svg",
      { class: "spark", viewBox: box, preserveAspectRatio: "none", role: "img", "aria-label": label },
      this.area,
      this.line,
    );
  }

  update(history) {
    const path = sparkPath(history, WIDTH, HEIGHT);
    setAttr(this.line, "d", path || `M0 ${HEIGHT - 1}L${WIDTH} ${HEIGHT - 1}`);
    const begin = path ? path.slice(1, path.indexOf(" ")) : "0";
    setAttr(this.area, "d", path ? `${path}L${WIDTH} ${HEIGHT}L${begin} ${HEIGHT}Z` : "");
  }
}
