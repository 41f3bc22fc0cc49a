// The chosen group at each level of the compiler, from HLO to the program.

const textsOf = async (of) => (of.texts ??= await unpack(`texts${programs.indexOf(of)}`));

tabs.push({
  name: "levels", title: "IR",
  make(section) {
    section.append(
      el("div", { class: "levels" }, el("div", {}, el("input", { type: "range", id: "level", min: 0, max: 6, step: 1, value: 6, style: "width:480px", "aria-label": "level", oninput: () => this.show(section) }), el("ol", { id: "level-names" })), el("span", { id: "about-level", class: "dim" })),
      el("pre", { id: "ir", style: "height:calc(100vh - 190px)" }));
  },
  async text(level) {
    const of = program();
    const texts = await textsOf(of);
    const group = of.groups[chosen.group];
    const kernel = texts.kernels[group.kernel];
    if (level === "program") return group.records.flatMap(([first, end]) => of.records.slice(first, end).map((line, n) => `${String(first + n).padStart(6)}  ${line}`)).join("\n");
    if (level === "fused") return kernel ? kernel.fused : null;
    if (level !== "hlo") return texts.levels[kernel ? kernel.name : group.name]?.[level] ?? null;
    const names = new Set(of.graph.nodes.filter((node) => node[2] === group.kernel && group.kernel >= 0).map((node) => node[4]).map((n) => [of.origins[n].source, of.origins[n].hlo].filter(Boolean).join(" ")));
    const lines = texts.hlo.split("\n").filter((line) => names.has(/loc = "((?:[^"\\]|\\.)*)"/.exec(line)?.[1].replace(/\\(["\\])/g, "$1")));
    return lines.length ? lines.map((line) => line.trim()).join("\n") : null;
  },
  async show(section) {
    const { order } = await textsOf(program());
    const level = order[Number(section.querySelector("#level").value)];
    section.querySelector("#level-names").replaceChildren(...order.map((name) => el("li", { style: name === level ? "font-weight:700;color:var(--mark)" : "" }, name)));
    const about = section.querySelector("#about-level");
    const ir = section.querySelector("#ir");
    if (chosen.group === OUTSIDE) {
      choose({ group: program().groups.reduce((best, group, n, all) => (best === OUTSIDE || group.cycles > all[best].cycles ? n : best), OUTSIDE) });
      return;
    }
    const text = await this.text(level);
    about.textContent = `${groupName(chosen.group)} at level ${level}${level === "hlo" ? ": the module's instructions that its own came from" : ""}${text ? `, ${count(text.split("\n").length)} lines` : ""}`;
    ir.textContent = text ?? `The text of this group at level ${level} is not known.`;
    ir.scrollTop = 0;
  },
  update(section, changed) {
    if (["program", "group", "tab"].some((name) => changed.has(name))) this.show(section);
  },
});
