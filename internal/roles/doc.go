// Package roles says who may do what on the server of a job: sensors, gateways,
// workers, readers, analysts, labellers, processes of alarms, operators. It has the subjects that each role
// needs and no more, and the file that gives users their roles.
//
// A users file has a line for each user: the name, the role and the bcrypt hash
// of the password, with blanks between. It holds no password. Empty lines and
// lines that begin with # say nothing.
//
// Rights are computed from the job's name and input subject when the server
// starts, so that they fit the program that runs: they are in no file.
//
// What rights do not cover: whoever may create a consumer chooses the subject to
// which the server delivers, and the server does not ask whether that user may
// publish there.
//
// # Files
//
//   - roles.go: defines the subjects that each role may use
//   - users.go: reads the file of users
package roles
