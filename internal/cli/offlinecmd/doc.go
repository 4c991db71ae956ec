// Package offlinecmd holds the commands under "offline": archives, training,
// evaluation, and the paper's experiments with their figures and reports.
package offlinecmd
