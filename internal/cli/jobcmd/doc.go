// Package jobcmd holds the commands that inspect a job or change it as a whole
// (partitions, state, deadletter, job), and the command that checks a job's
// requirements (doctor).
//
// # Files
//
//   - status.go: defines the command status
//   - watch.go: redraws the report of a job (status --watch)
//   - watch_text.go: writes a report as lines for a terminal
//   - doctor.go: defines the command doctor; checks processor, directory, memory and server
//   - doctor_consumers.go: checks the limits of consumers
//   - doctor_gpu.go: checks the GPUs
//   - doctor_job.go: checks the input of a job
//   - partitions.go: prints the partitions of a job (status --partitions)
//   - state.go: prints snapshots; defines the commands state export, import and verify
//   - jobs.go: defines the commands job list and job delete
//   - resize.go: defines the command job resize
//   - replace.go: defines the command job replace
//   - trim.go: defines the command job trim
//   - deadletter.go: defines the commands deadletter list and resend
package jobcmd
