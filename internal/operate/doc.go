// Package operate changes a whole job from outside: the number of partitions, the
// network, the active readout, the shadows, and the initial states. Workers do not depend
// on this package: each change is written into the job's entry or records, and workers
// follow entry and records. Package pipeline's documentation describes the protocols
// ("Another number of partitions", "Another network", "Promotion", "Shadows"), and why
// each step may be interrupted and repeated.
//
// # Files
//
//   - errors.go: names the conditions for which a change is refused
//   - partitions.go: changes the number of partitions of a job (Resize)
//   - network.go: continues a job with the network and states of another job (Replace)
//   - change.go: runs a change in repeatable steps
//   - records.go: rewrites the records of partitions
//   - mapping.go: switches the subject mapping of the server
//   - copies.go: waits for all copies of the input in a cluster
//   - redistribute.go: divides states among the new partitions and compares digests
//   - takeover.go: gives a job the network and states of another job
//   - abandon.go: reverts an incomplete change
//   - promote.go: promotes a readout (docs/models.md)
//   - shadow.go: sets and ends shadows: readouts that score without predicting
//   - import.go: exports and imports snapshots
package operate
