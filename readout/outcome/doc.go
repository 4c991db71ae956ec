// Package outcome defines a readout's answer for a sequence, as data: the fields of an answer,
// its flags, and the columns of written predictions.
//
// The package computes nothing. Method Answer of readout.Linear fills an Answer in; packages
// codec, offline and the commands write the Answer. The package imports no other package of the
// project, so that readers of predictions need neither readouts nor networks.
//
// A new column is a row of Columns and a value computed in readout/answer.go. make generate
// then writes the clients, the reference and AsyncAPI.
//
// # Files
//
//   - columns.go: defines the table of output columns: name, type, meaning, when absent
//   - answer.go: defines the answer of a readout for one sequence
//   - flag.go: defines flags and the integrity of a prediction
//   - text.go: writes answers as JSON and CSV text
package outcome
