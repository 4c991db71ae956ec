package main

// notes are the reasons for which no history finds a fault. A reason after "assumed" has no
// test; a reason with a number of histories was tested with such histories. See also
// together.go.
var notes = map[string]string{
	"commit: an answer is relied on without an end":                                           "assumed: with one server, a server that goes back breaks every connection, and the comparison of the connections remains",
	"commit: a commit without an answer is repeated after a break without reading the record": "assumed: with one server, the expected number prevents the second copy",
	"claim: the creation time of the input is not compared":                                   "found only together: the input is not compared with the record",
	"claim: the epoch does not rise":                                                          "found only together: owners do not exclude each other at a claim",
	"claim: a claim names no expected message":                                                "found only together: owners do not exclude each other at a claim",
	"claim: a living owner is not waited for":                                                 "found only together: owners do not exclude each other at a claim",
	"claim: an input shorter than the record is accepted":                                     "found only together: the input is not compared with the record",
	"claim: the last message is not compared with the input":                                  "found only together: the input is not compared with the record",
	"claim: a partition with snapshots begins without its record":                             "assumed: few histories remove the record of one partition",
	"rows: a stored row is not compared with its hash":                                        "assumed: the server refuses messages with flipped bits",
	"rows: rows are deleted while a snapshot names them":                                      "50 histories with few slots, removed input and kills at the removal of rows did not find the fault",
	"emit: an empty commit moves the position of a split commit":                              "62 histories with split commits, dead letters and kills between the parts did not find the fault: a new owner must read a dead letter and the next message apart, the previous owner together",
	"order: a message before the snapshot is applied again":                                   "assumed: no reader passes a message twice; 530 histories with a common reader that may pass a message twice did not find the fault",
	"retire: replaced snapshots are deleted at once":                                          "assumed: only an output that goes back needs the snapshots, and then a partition may stop",
	"snapshot: a commit names it before it is stored":                                         "16 histories with removed input and kills before the entry of a snapshot did not find the fault",
	"restore: an older snapshot is used without a look at the input":                          "the comparison of the rebuilt state with the digest stops the partition: the histories find that fault",
	"together: a message after the snapshot comes twice and is applied twice":                 "assumed: no server sends a message twice to the common reader",
}
