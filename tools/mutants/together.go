package main

// together lists combinations of planted faults. A history finds a combination, but not each
// single fault: the remaining rule prevents the effect.
var together = []planted{
	{
		name:  "together: the input is not compared with the record",
		parts: []string{"claim: the creation time of the input is not compared", "claim: an input shorter than the record is accepted", "claim: the last message is not compared with the input", "past: live workers read a recreated input"},
	},
	{
		name: "together: a message after the snapshot comes twice and is applied twice", file: "internal/pipeline/owner/common.go",
		old:   "at.Seq <= v.passed.Load()",
		new:   "at.Seq < v.passed.Load()",
		also:  []planted{{file: "internal/pipeline/shard/ingest.go", old: "if j.Msg.Seq <= p.State.Done || p.Failed() {", new: "if j.Msg.Seq < p.State.Done || p.Failed() {"}},
		parts: []string{"order: a message before the snapshot is applied again"},
	},
	{
		name: "together: a snapshot is taken without a commit, and named after the position", file: "internal/pipeline/shard/finalise.go",
		old:   "		a.Commit = true\n",
		new:   "",
		parts: []string{"emit: a record names a snapshot after its position"},
	},
	{
		name: "together: an answer is relied on in every case", file: "internal/pipeline/store/commit.go",
		old:   "now.reconnects == q.reconnects && now.at.Sub(q.at) < surely",
		new:   "now.reconnects >= q.reconnects",
		parts: []string{"commit: a commit without an answer is repeated after a break without reading the record"},
	},
	{
		name:  "together: an older snapshot is used without any check",
		parts: []string{"restore: an older snapshot is used without a look at the input", "claim: a rebuilt state is not compared with the digest"},
	},
	{
		name: "together: replaced snapshots are deleted, and the input is not read from its beginning", file: "internal/pipeline/owner/restore.go",
		old:   "	if t.first > 1 {\n",
		new:   "	if t.first > 0 {\n",
		parts: []string{"retire: replaced snapshots are deleted at once"},
	},
	{
		name:  "together: owners do not exclude each other at a claim",
		parts: []string{"claim: the epoch does not rise", "claim: a claim names no expected message", "claim: a living owner is not waited for"},
	},
}
