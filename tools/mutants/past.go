package main

// past are defects that the stage once had, planted again, and rules about the end of an
// ownership: the simulation must find each.
var past = []planted{
	{
		name: "past: live workers read a recreated input", file: "internal/pipeline/owner/checkinput.go",
		old: "	if t.w.Trusting {\n",
		new: "	if t.w != nil {\n",
	},
	{
		name: "past: a job whose output is lost begins a second time", file: "internal/pipeline/store/begun.go",
		old: "if err != nil || len(traces) == 0 {",
		new: "if err != nil || len(traces) >= 0 {",
	},
	{
		name: "past: the states of two networks are mixed", file: "pipeline/run.go",
		old: "	if r.worker.guard.identity != nil {\n		r.self.model = r.worker.guard.identity(r.self.model)\n	}\n",
		new: "	r.self.model.Network, r.self.model.Readout = fmt.Sprintf(\"%032d\", 0), fmt.Sprintf(\"%032d\", 0)\n",
	},
	{
		name: "past: of two first workers only one finds the NATS streams", file: "internal/pipeline/store/streams.go",
		old: "	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {\n		return s, err",
		new: "	if s != nil || err != nil {\n		return s, err",
	},
	{
		name: "past: an output restored from a copy is continued", file: "internal/pipeline/store/commit.go",
		old: "		case seq == c.Last && r != c.acked && c.isFenced():",
		new: "		case seq == c.Last && r != c.acked && c.Last == 0:",
	},
	{
		name: "past: an output that went back is not reported", file: "internal/pipeline/store/commit.go",
		old: "			if time.Since(staleSince) > StaleGrace {",
		new: "			if time.Since(staleSince) > 1000*StaleGrace {",
	},
	{
		name: "end: a partition that another worker took is never claimed again", file: "pipeline/manage.go",
		old: "			m.run.counters.Fenced.Add(1)\n",
		new: "			m.stopped[p] = err\n			m.run.counters.Fenced.Add(1)\n",
	},
	{
		name: "end: a partition that should wait stops", file: "pipeline/manage.go",
		old: "			m.backOff(p, err)\n",
		new: "			m.stopped[p] = err\n",
	},
	{
		name: "restore: an older snapshot is used without a look at the input", file: "internal/pipeline/owner/restore.go",
		old: "			if name != t.c.Record.Snap {",
		new: "			if name != t.c.Record.Snap && name == \"\" {",
	},
	{
		name: "restore: the losses of the record are forgotten", file: "internal/pipeline/owner/checkinput.go",
		old: "state.ParseLosses(c.Record.Losses); err != nil",
		new: "state.ParseLosses(\"\"); err != nil",
	},
}
