// Source lines with their time beside the program's instructions: a line shows its instructions, an instruction its line.

const HLO = "(module at level HLO)";
let wantedLine = null; // [file, line] that was clicked

/** Shows a place such as model.py:12:8; or, without one, the instructions of that name. */
function showSource(source, name) {
  const of = program();
  const number = of.origins.findIndex((origin) => origin.source === source && (!name || origin.hlo === name));
  const origin = of.origins[number];
  wantedLine = origin && origin.file ? [origin.file, origin.line] : null;
  choose({ tab: "source", record: OUTSIDE });
  tabs.find((tab) => tab.name === "source").show();
}

function recordLines(of, numbers, isFlat) {
  return numbers.map((n) => {
    const [times, busy, moved] = of.record_costs[n];
    const title = `record ${n}, ${of.engines[of.record_engines[n]]}; executed ${times} times a tile, busy ${count(busy)} cycles a tile in all${moved ? `, ${count(moved)} bytes` : ""}`;
    return el("div", { "data-line": n, class: n === chosen.record ? "on" : null, title, onclick: () => { wantedLine = null; choose({ record: n }); } }, el("span", { class: "line" }, String(n)), el("span", { class: "time" }, busy ? count(busy) : ""), isFlat ? of.records[n].trim() : of.records[n]);
  });
}

tabs.push({
  name: "source", title: "Source",
  make(section) {
    this.section = section;
    section.append(
      el("div", { class: "bar" }, el("select", { id: "file", onchange: () => { wantedLine = null; this.show(); } }), el("span", { class: "dim", id: "about-line" })),
      el("div", { class: "split", style: "grid-template-columns:minmax(0,1fr) minmax(0,1fr)" },
        el("div", {}, el("h2", {}, "Lines ", el("small", {}, "with the cycles of their instructions' shares of groups' times")), el("div", { class: "code", id: "lines", style: "height:calc(100vh - 190px)" })),
        el("div", {}, el("h2", {}, "Instructions ", el("small", {}, "number, cycles their engine is busy (mean over tiles)")), el("div", { class: "code", id: "instructions", style: "height:calc(100vh - 190px)" }))));
  },
  /** Time by file and line, and records by them. */
  index(of) {
    if (of.byLine) return;
    of.byLine = new Map();
    of.recordsOf = new Map();
    const key = (origin) => `${origin.file}\n${origin.line}`;
    const places = new Map(of.origins.map((origin) => [origin.source, origin]));
    for (const row of of.instructions) if (places.has(row.source)) of.byLine.set(key(places.get(row.source)), (of.byLine.get(key(places.get(row.source))) || 0) + row.cycles);
    of.record_origins.forEach((origin, n) => { const k = key(of.origins[origin]); if (!of.recordsOf.has(k)) of.recordsOf.set(k, []); of.recordsOf.get(k).push(n); });
  },
  async show() {
    const of = program();
    const section = this.section;
    if (!section) return;
    this.index(of);
    const select = section.querySelector("#file");
    if (!wantedLine && chosen.record === OUTSIDE && !select.value && of.byLine.size) {
      const [line] = [...of.byLine].reduce((best, each) => (each[1] > best[1] ? each : best)); // begins with the line that takes longest
      wantedLine = [line.split("\n")[0], Number(line.split("\n")[1])];
    }
    if (chosen.record !== OUTSIDE) {
      const origin = of.origins[of.record_origins[chosen.record]];
      wantedLine = origin.file ? [origin.file, origin.line] : null;
    }
    const wanted = wantedLine ? wantedLine[0] : select.value;
    const names = [...of.files.map((file) => file.name), HLO];
    const name = names.includes(wanted) ? wanted : names[0];
    select.replaceChildren(...names.map((each) => el("option", { value: each, ...(each === name ? { selected: "" } : {}) }, each)));
    const lines = section.querySelector("#lines");
    lines.replaceChildren(...(name === HLO ? await this.module(of) : this.file(of, of.files.find((file) => file.name === name))));
    lines.querySelector(".on")?.scrollIntoView({ block: "center" });
    this.instructions(of);
  },
  pick(file, line) {
    wantedLine = [file, line];
    Object.assign(chosen, { record: OUTSIDE });
    this.show();
  },
  file(of, file) {
    if (file.missing) return [el("p", { class: "dim", style: "padding:8px" }, `The text of ${file.name} ${file.missing}.`)];
    return file.pieces.flatMap(({ first, lines }, piece) => [
      ...(piece ? [el("div", { class: "dim" }, "  ⋮")] : []),
      ...lines.map((text, n) => {
        const line = first + n;
        const cycles = of.byLine.get(`${file.name}\n${line}`);
        const has = of.recordsOf.has(`${file.name}\n${line}`);
        const isOn = wantedLine && wantedLine[0] === file.name && wantedLine[1] === line;
        return el("div", { "data-line": has ? line : null, class: isOn ? "on" : null, onclick: has ? () => this.pick(file.name, line) : null }, el("span", { class: "line" }, String(line)), el("span", { class: "time" }, cycles ? count(cycles) : ""), text);
      }),
    ]);
  },
  /** Lines of the IR at HLO, which name the places they came from. */
  async module(of) {
    const { hlo } = await textsOf(of);
    const places = new Map(of.origins.map((origin) => [[origin.source, origin.hlo].filter(Boolean).join(" "), origin]));
    return hlo.split("\n").map((text, n) => {
      const origin = places.get(/loc = "((?:[^"\\]|\\.)*)"/.exec(text)?.[1].replace(/\\(["\\])/g, "$1"));
      const rows = origin ? of.instructions.filter((row) => row.source === origin.source && row.name === (origin.hlo || "(none)")) : [];
      const isOn = wantedLine && origin && wantedLine[0] === origin.file && wantedLine[1] === origin.line;
      return el("div", { "data-line": rows.length ? n : null, class: isOn ? "on" : null, onclick: rows.length ? () => { wantedLine = [origin.file, origin.line]; this.only = origin; this.instructions(of); } : null }, el("span", { class: "line" }, String(n + 1)), el("span", { class: "time" }, rows.length ? count(rows[0].cycles) : ""), shorten(text, 400));
    });
  },
  instructions(of) {
    const section = this.section;
    const list = section.querySelector("#instructions");
    const about = section.querySelector("#about-line");
    const numbers = this.only ? of.record_origins.flatMap((n, record) => (of.origins[n] === this.only ? [record] : [])) : wantedLine ? of.recordsOf.get(wantedLine.join("\n")) || [] : [];
    this.only = null;
    const cycles = wantedLine ? of.byLine.get(wantedLine.join("\n")) : 0;
    about.textContent = wantedLine ? `line ${wantedLine[1]}: ${count(cycles || 0)} cycles, ${percent((cycles || 0) / of.report.cycles)} of the time, ${count(numbers.length)} instructions` : chosen.record !== OUTSIDE ? `instruction ${chosen.record} has no source line` : "Click a line to see its instructions, an instruction to see its line.";
    const around = chosen.record !== OUTSIDE ? [...Array(of.records.length).keys()].slice(Math.max(0, chosen.record - 400), chosen.record + 400) : null;
    list.replaceChildren(...recordLines(of, numbers.length && !around ? numbers.slice(0, 3000) : around || [...Array(Math.min(of.records.length, 1500)).keys()], numbers.length > 0 && !around));
    list.querySelector(".on")?.scrollIntoView({ block: "center" });
  },
  update(section, changed) {
    if (changed.has("program") || changed.has("record") || changed.has("tab")) this.show();
  },
});
