package main

// notes are the reasons for which no history finds a fault. A reason after "assumed" has no
// test; a reason with a number of histories was tested with such histories. See also
// together.go.
var notes = map[string]string{
	"commit: an answer is relied on without an end":                                           "assumed: with one server, a server that goes back breaks every connection, and the comparison of the connections remains",
	"commit: a commit without an answer is repeated after a break without reading the record": "assumed: with one server, the expected number prevents the second copy",
	"claim: the creation time of the input is not compared":                                   "assumed: the end of the input and the times of its messages are compared as well",
	"claim: the epoch does not rise":                                                          "assumed: the expected number separates the workers",
	"claim: a claim names no expected message":                                                "assumed: the commit after the claim expects a number",
	"claim: a living owner is not waited for":                                                 "assumed: the rule saves work only, because the expected number separates the workers",
	"claim: an input shorter than the record is accepted":                                     "assumed: the times of messages are compared as well",
	"claim: the last message is not compared with the input":                                  "3 of 3 histories in which the input goes back between two workers: found only together with past: live workers read a recreated input",
	"claim: a rebuilt state is not compared with the digest":                                  "few histories delete messages that a later owner reads",
	"claim: a partition with snapshots begins without its record":                             "assumed: few histories remove the record of one partition",
	"rows: a stored row is not compared with its hash":                                        "assumed: the server refuses messages with flipped bits",
	"rows: rows are deleted while a snapshot names them":                                      "50 histories with few slots, removed input and kills at the removal of rows did not find the fault",
	"emit: an empty commit moves the position of a split commit":                              "62 histories with split commits, dead letters and kills between the parts did not find the fault: a new owner must read a dead letter and the next message apart, the previous owner together",
	"resize: the cut is one message late":                                                     "1 of 97 histories of an earlier generator found the fault; not run since",
	"order: a message before the snapshot is applied again":                                   "assumed: no reader passes a message twice; 14 histories with the fault and a common reader that may pass a message twice did not find it",
	"retire: replaced snapshots are deleted at once":                                          "assumed: only an output that goes back needs the snapshots, and then a partition may stop",
	"snapshot: a commit names it before it is stored":                                         "16 histories with removed input and kills before the entry of a snapshot did not find the fault",
	"resize: the digest of a snapshot is not compared with its record":                        "assumed: few histories alter a snapshot before a resize",
	"resize: the sums before and after are not compared":                                      "assumed: few histories alter a snapshot during a resize",
}
