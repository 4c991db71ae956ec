package main

// notes are the reasons for which no history finds a fault: other rules hide its effect. See
// together.go.
var notes = map[string]string{
	"commit: an answer is relied on without an end":                                           "found only together: an answer is relied on in every case; the time limit itself needs a cluster, whose leader may go back without breaking a connection",
	"commit: a commit without an answer is repeated after a break without reading the record": "found only together: an answer is relied on in every case; the rule itself needs a cluster, whose leader may go back without breaking a connection",
	"claim: the creation time of the input is not compared":                                   "found only together: the input is not compared with the record",
	"claim: the epoch does not rise":                                                          "found only together: owners do not exclude each other at a claim",
	"claim: a claim names no expected message":                                                "found only together: owners do not exclude each other at a claim",
	"claim: a living owner is not waited for":                                                 "found only together: owners do not exclude each other at a claim",
	"claim: an input shorter than the record is accepted":                                     "found only together: the input is not compared with the record",
	"claim: the last message is not compared with the input":                                  "found only together: the input is not compared with the record",
	"emit: a record names a snapshot after its position":                                      "found only together: a snapshot is taken without a commit, and named after the position",
	"order: a message before the snapshot is applied again":                                   "found only together: a message after the snapshot comes twice and is applied twice",
	"retire: replaced snapshots are deleted at once":                                          "found only together: replaced snapshots are deleted, and the input is not read from its beginning",
	"restore: an older snapshot is used without a look at the input":                          "found only together: an older snapshot is used without any check",
}
