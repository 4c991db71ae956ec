// Package offlinecmd holds the commands under "offline": archives, training,
// evaluation, and the paper's experiments with their figures and reports.
//
// # Files
//
//   - import.go: defines the commands offline and import
//   - import_table.go: imports recordings, and prints their columns
//   - retrain.go: defines the command train
//   - choose.go: searches settings for the command train; prints the candidates
//   - retrain_print.go: prints the plan of a training and the trained model
//   - network.go: parses the flags of the network
//   - policy.go: parses the flags of the policy
//   - front.go: parses the flag of the front end
//   - rate.go: parses the flag of the sampling rate
//   - certainty.go: parses the flags of sets, abstention and numbers; prints their results
//   - early.go: parses the flags of early decisions; prints their results
//   - novelty.go: parses the flags of novelty detectors; prints their results
//   - group.go: parses the flags of groups; prints groups
//   - split.go: defines the command offline split
//   - shard.go: defines the commands of trainings in shards; parses sizes
//   - evaluate.go: defines the command evaluate
//   - rehearse.go: judges evaluated predictions by alarm rules; prints counts and points of change
//   - timeline.go: draws the alarms of an evaluation
//   - merge.go: reads the flag of merged classes
//   - quality.go: prints precision, recall and other measures
//   - paper.go: defines the command offline paper; runs the experiments of memory and compare
//   - memory.go: defines the command offline paper memory
//   - compare.go: defines the command offline paper compare
//   - compare_print.go: prints ranks and differences of banks
//   - figures.go: defines the command offline paper figures
//   - report.go: defines the command offline paper report
//   - embed.go: defines the command offline paper embed
//   - energy.go: measures the energy of offline jobs
package offlinecmd
