// Package plants runs the commands of the pages docs/plants on public recordings of
// machines as printed, until an alarm, and sends the recordings through gateway, stage and
// alarms: live predictions must equal the evaluation bit for bit, and live alarms must equal
// evaluate --alarm-rules.
//
//	go test ./integration/plants     a small part of three sets
//	make plants                      all sets, minutes: prints the table of the pages,
//	                                 and writes docs/results/plants.csv and the pages
//	make plants PLANTS=DIR           other data in the same folders: skab, cmapss, tep,
//	                                 cwru, hydraulic, nab; prints only
//
// # Files
//
//   - pages_test.go: reads commands and table of a page
//   - rig_test.go: runs the commands of a page in a folder with the data
//   - live_test.go: sends a recording through gateway, stage and alarms
//   - score_test.go: computes the scores of SKAB and NAB
//   - sets_test.go: holds the sets, with the rows of their tables
//   - plants_test.go: runs the sets
package plants
