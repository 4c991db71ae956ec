// Package watchcmd is the command "watch": it finds the machines behind an address, learns what is
// healthy, saves a configuration, and runs the stage with it.
//
// # Files
//
//   - command.go: defines the command watch
//   - source.go: reads messages of MQTT brokers and NATS servers
//   - variables.go: finds machines in the address space of an OPC UA server
//   - subjects.go: chooses the subjects and the job of a kind of machines of a NATS server
//   - find.go: finds machines and channels
//   - collect.go: collects samples of healthy machines
//   - window.go: chooses the window, and checks whether the samples suffice
//   - train.go: trains the detector
//   - tables.go: reads tables, and replays the part that is not learned
//   - save.go: writes and reads the folder of a configuration
//   - follow.go: reports verdicts and alarms of the running stage
//   - events.go: reports progress, as text or as lines of JSON
package watchcmd
