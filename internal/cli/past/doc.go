// Package past has the commands that look at what a job has done: explain, state as-of.
package past
