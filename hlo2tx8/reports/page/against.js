// Two programs beside each other: what the first takes longer for than the second, group by group and engine by engine.

let against = null; // what reports/against.py gives
const SIDES = ["A", "B"];

const change = (a, b, shown = count) => el("span", { class: Math.abs(a - b) < 0.5 ? "dim" : a > b ? "worse" : "better" }, Math.abs(a - b) < 0.5 ? "the same" : `${a > b ? "+" : "−"}${shown(Math.abs(a - b))}`);
const pairOf = (program, group) => against.pairs.findIndex((pair) => pair[program ? "b" : "a"].includes(group));

function drawSides(element) {
  const names = ["cycles", ...ENGINE_ORDER.filter((name) => against.busy[name].some(Boolean)).map((name) => `${name} busy`)];
  const rows = [programs.map((of) => of.report.cycles), ...ENGINE_ORDER.filter((name) => against.busy[name].some(Boolean)).map((name) => against.busy[name])];
  const bars = (side, color) => ({ name: `${SIDES[side]}: ${shorten(programs[side].name, 30)}`, type: "bar", data: rows.map((row) => row[side]), itemStyle: { color }, barGap: "10%", label: { show: true, position: "right", formatter: ({ value }) => scaled(value, ""), color: "#57606a", fontSize: 10 } });
  chart(element).setOption({
    animation: false, grid: { left: 84, right: 60, top: 30, bottom: 40 }, legend: { top: 0, left: 80 },
    xAxis: { type: "value", name: "cycles; of engines the mean over tiles", nameGap: 24, ...AXIS, axisLabel: { color: "#57606a", formatter: (v) => scaled(v, "") } },
    yAxis: { type: "category", data: names, inverse: true, ...AXIS }, series: [bars(0, "#d1541f"), bars(1, "#2f62c9")],
    tooltip: { trigger: "axis", valueFormatter: (v) => `${count(v)} cycles` },
  }, true);
}

tabs.push({
  name: "against", title: "Compare", needs: () => against !== null, sort: 2,
  make(section) {
    section.append(el("div", { class: "cards" },
      el("div", { class: "card", style: "grid-column:span 7" }, el("h2", {}, "A against B"), el("div", { class: "chart", id: "sides", style: "height:290px" })),
      el("div", { class: "card", style: "grid-column:span 5" }, el("h2", {}, "The whole ", el("small", {}, "beyond the lower bound, by cause, in cycles")), el("div", { id: "sums" })),
      el("div", { class: "card", style: "grid-column:span 12" }, el("div", { class: "bar" }, el("h2", {}, "Groups"), el("label", {}, el("input", { type: "checkbox", id: "all-pairs", onchange: () => this.list(section) }), " also those that take the same"), el("span", { class: "dim" }, "matched by name and order; what lies between is taken together. Click a row for its engines and bytes.")), el("div", { id: "pairs", style: "overflow:auto;max-height:520px" }))));
  },
  list(section) {
    const all = section.querySelector("#all-pairs").checked;
    const names = (side, numbers) => (numbers.length ? numbers.slice(0, 3).map((n) => programs[side].groups[n].name).join(", ") + (numbers.length > 3 ? ` and ${numbers.length - 3} more` : "") : "none");
    const pairs = against.pairs.filter((pair) => all || Math.abs(pair.cycles[0] - pair.cycles[1]) >= 0.5).sort((p, q) => Math.abs(q.cycles[0] - q.cycles[1]) - Math.abs(p.cycles[0] - p.cycles[1])).slice(0, 1000);
    const rows = pairs.map((pair) => [names(0, pair.a), names(1, pair.b), count(pair.cycles[0]), count(pair.cycles[1]), change(...pair.cycles), pair.reasons.join("; ") || (pair.a.length && pair.b.length ? "" : `only ${pair.a.length ? "A" : "B"} has it`)]);
    const made = table(["in A", "in B", ">cycles of A", ">of B", ">A against B", "why"], rows, (n) => this.open(made, pairs[n], n));
    made.querySelectorAll("tbody td:last-child").forEach((cell) => { cell.style.whiteSpace = "normal"; });
    section.querySelector("#pairs").replaceChildren(rows.length ? made : el("p", { class: "dim" }, "All groups take the same time."));
  },
  /** The engines and bytes of a pair below its row, or not. */
  open(made, pair, n) {
    const row = [...made.querySelectorAll("tbody > tr:not(.detail)")][n];
    if (row.nextSibling?.classList.contains("detail")) return row.nextSibling.remove();
    const engines = Object.entries(pair.busy).map(([name, [a, b]]) => [`${name} busy, cycles`, count(a), count(b), change(a, b)]);
    const moved = Object.entries(pair.bytes).map(([name, [a, b]]) => [`bytes ${name}`, bytes(a), bytes(b), change(a, b, bytes)]);
    const go = (side) => pair[side ? "b" : "a"].length ? el("button", { onclick: () => choose({ program: side, group: pair[side ? "b" : "a"][0], record: OUTSIDE, tile: 0, tab: "groups" }) }, `see it in ${SIDES[side]}`) : null;
    const inner = table(["", ">A", ">B", ">A against B"], [...engines, ...moved, ["bound", pair.bounds[0], pair.bounds[1], ""]]);
    row.after(el("tr", { class: "detail" }, el("td", { colspan: 6, style: "padding:4px 20px 10px" }, el("div", { style: "max-width:640px" }, inner), go(0), " ", go(1))));
  },
  update(section, changed) {
    if (!changed.has("tab") && !changed.has("program")) return;
    drawSides(section.querySelector("#sides"));
    const [a, b] = against.lost;
    const causes = [...new Set([...Object.keys(a), ...Object.keys(b)])];
    const rows = [["cycles", ...programs.map((of) => count(of.report.cycles)), change(...programs.map((of) => of.report.cycles))], ["launch", ...against.launch.map(count), change(...against.launch)],
      ["bytes from and to DDR", ...programs.map((of) => bytes(of.report["bytes accessed"])), change(...programs.map((of) => of.report["bytes accessed"]), bytes)],
      ...causes.map((cause) => [cause, count(a[cause] || 0), count(b[cause] || 0), change(a[cause] || 0, b[cause] || 0)])];
    section.querySelector("#sums").replaceChildren(table(["", ">A", ">B", ">A against B"], rows));
    this.list(section);
  },
});
