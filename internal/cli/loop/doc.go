// Package loop holds the commands of the loop from a job's input to a better model:
// record, labels, learn, and the "model" commands for a running job (publish, shadow,
// promote, ...).
//
// # Files
//
//   - labels.go: defines the commands labels add, list and export
//   - learn.go: defines the command learn
//   - learn_flags.go: defines the flags of learn
//   - learn_round.go: reads new input and fits, once or repeatedly
//   - learn_known.go: selects the features or sums to fit from
//   - learn_sites.go: tests each site with a readout fitted without the site
//   - learn_print.go: prints the use of labels and the trained readout
//   - learn_publish.go: publishes the result as a model or a shadow
//   - record.go: defines the commands record and record verify
//   - registry.go: defines the commands model publish, list, show and retire
//   - promote.go: defines the commands model promote and rollback
//   - promote_if.go: checks the condition of a promotion (--if)
//   - shadow.go: defines the command model shadow
//   - shadow_report.go: prints how shadows compare with the active readout
package loop
