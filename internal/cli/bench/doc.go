// Package bench measures this machine for "bench": the engines against the peak of
// its arithmetic, and the whole stage under a load that package load makes.
//
// # Files
//
//   - bench.go: defines the command bench
//   - options.go: checks the flags
//   - engine.go: measures the engines in turns
//   - shapes.go: defines the measured network shapes
//   - work.go: counts the operations per sample of a network
//   - alone.go: measures engines without a stage
//   - stage.go: measures the stage with a server
//   - messages.go: measures small messages through the stage and plain JetStream
//   - messages_rig.go: publishes to plain JetStream and reads CPU times
//   - peak.go: measures the peak rate of multiply-adds
//   - energy.go: measures the energy of a GPU per sample
//   - print.go: prints results as tables or JSON lines
package bench
