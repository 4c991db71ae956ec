// Package loop holds the commands of the loop from a job's input to a better model:
// record, labels, learn, and those of "model" that work with a running job (publish,
// shadow, promote, ...).
package loop
