// Package integration holds the tests that need several packages, a real server or
// another program. The tests check the imports between packages; the documents against
// the program (links, commands, flags, tests, quotes of the log); the model file in
// NumPy; and the stage under deliberate faults (command chaos, in a subfolder). Tests of
// the stage with simulated and recorded data are next to its commands, in internal/cli.
//
// # Files
//
//   - outside_test.go: compiles a program of another module
//   - docs_test.go: checks links, commands, flags and test names in documents
//   - words_test.go: checks comments, names of functions and pages for house words
//   - budgets_test.go: limits the words of each page by its kind
//   - quoted_test.go: checks quoted log messages
//   - commands_test.go: checks that libraries name no commands of the program
//   - comments_test.go: checks names in comments and the lists of files
//   - imports_test.go: holds all allowed imports, each with its reason
//   - structure_test.go: checks the size of packages, functions and structs
//   - structure_exceptions_test.go: holds the exceptions
//   - race_test.go: checks the lists of packages under the race detector
//   - require_test.go: checks that skipped tests name the missing part
//   - licenses_test.go: checks docs/licenses.md
//   - asyncapi_test.go: checks docs/asyncapi.json
//   - kubernetes_test.go: checks the manifests in configs/kubernetes
//   - formats_test.go: compares formats in the live stage and offline
//   - column_test.go: plants an output column and checks that all outputs have it
//   - loop_test.go: runs the script docs/learn-and-promote.sh
//   - node_test.go, python_test.go: run the clients for JavaScript and Python
//   - numpy_test.go: opens a model file in NumPy
//   - peers_test.go: compares speeds with other libraries
//   - sensor_test.go: checks flags of dead sensors
//   - chaos_test.go: runs the fault harness (command chaos)
//
// Acceptance runs are next to the commands: the gateway with kills of all parts (make
// gateway-run) in internal/cli/live, the loop from a label to a promotion (make loop-run)
// in internal/cli/loop, upgrades (make upgrade) in cmd/eusn-stream.
package integration
