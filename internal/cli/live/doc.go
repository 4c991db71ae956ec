// Package live holds the commands of the live stage: run, its inputs and readers
// (replay, gateway, tail); and backfill, which predicts old data.
//
// # Files
//
//   - run.go: defines the command run: starts server, stage, metrics and page; logs the status
//   - together.go: runs the gateway and the alarms in the process of the stage
//   - replay.go: defines the command replay
//   - gateway.go: defines the command gateway
//   - gateway_inputs.go: checks and starts the inputs of the gateway
//   - gateway_payloads.go: decodes payloads with one decoder per goroutine
//   - fieldbus.go: starts the inputs for OPC UA, Modbus and Sparkplug B
//   - backfill.go: defines the command backfill
//   - backfill_files.go: reads files of old samples
//   - backfill_lines.go: writes predictions as JSON or CSV lines
//   - tail.go: defines the command tail
//   - selection.go: selects streams by name
//   - printer.go: prints the predictions of a running stage as JSON lines
//   - metrics.go: serves metrics, health and the live page
//   - traces.go: starts the export of traces
//   - slots.go: limits the slots of a stage to half of the memory
//   - unsafe.go, unsafe_chaos.go: disable one safety check for the fault harness (build tag chaos)
package live
