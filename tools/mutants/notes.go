package main

// notes are the reasons for which no history finds a fault. "redundant" names the other
// rule that catches the fault.
var notes = map[string]string{
	"commit: an answer is relied on without an end":                                           "redundant with one server: a server that goes back breaks every connection, and the other half of the rule remains",
	"commit: a commit without an answer is repeated after a break without reading the record": "redundant with one server: the expected number refuses the second copy",
	"claim: the creation time of the input is not compared":                                   "redundant: the end of the input and the times of its messages are compared as well",
	"claim: the epoch does not rise":                                                          "redundant: the expected number separates the workers",
	"claim: a claim names no expected message":                                                "redundant: the commit after the claim expects a number",
	"claim: a living owner is not waited for":                                                 "saves work only: the expected number separates the workers",
	"claim: an input shorter than the record is accepted":                                     "redundant: the times of messages are compared as well",
	"claim: the last message is not compared with the input":                                  "few histories in which the input goes back and grows beyond the record",
	"claim: a rebuilt state is not compared with the digest":                                  "few histories delete messages that a later owner reads",
	"claim: a partition with snapshots begins without its record":                             "redundant when the whole output is lost: the job does not start; no history removes the record of one partition",
	"rows: a stored row is not compared with its hash":                                        "redundant: the server refuses messages with flipped bits",
	"promotion: one of another job is taken":                                                  "there is one job",
	"retire: replaced snapshots are deleted at once":                                          "only an output that goes back needs them, and then a partition may stop",
	"snapshot: a commit names it before it is stored":                                         "an older snapshot and the input have the state; a kill between both stores and removed input are rare together",
	"resize: the cut is one message late":                                                     "a message must arrive between two requests of the command",
	"resize: the digest of a snapshot is not compared with its record":                        "no history damages a snapshot before a resize",
	"resize: the sums before and after are not compared":                                      "no history damages a snapshot during a resize",
	"input: lost messages are not reported":                                                   "few histories purge the input under a reader",
}
