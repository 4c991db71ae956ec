package main

// together are faults planted with the other rules that prevent their effect. Rules whose
// faults are found together, but not one by one, are redundant.
var together = []planted{
	{
		name:  "together: the input is not compared with the record",
		parts: []string{"claim: the creation time of the input is not compared", "claim: an input shorter than the record is accepted", "claim: the last message is not compared with the input", "past: live workers read a recreated input"},
	},
	{
		name: "together: a message after the snapshot comes twice and is applied twice", file: "internal/pipeline/owner/common.go",
		old:   "at.Seq <= v.passed.Load()",
		new:   "at.Seq < v.passed.Load()",
		parts: []string{"order: a message before the snapshot is applied again"},
	},
	{
		name:  "together: an older snapshot is used without any check",
		parts: []string{"restore: an older snapshot is used without a look at the input", "claim: a rebuilt state is not compared with the digest"},
	},
	{
		name:  "together: owners do not exclude each other at a claim",
		parts: []string{"claim: the epoch does not rise", "claim: a claim names no expected message", "claim: a living owner is not waited for"},
	},
}
