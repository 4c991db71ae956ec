// Package roles defines the rights of each role on the server of a job: sensors, gateways,
// workers, readers, analysts, labelers, alarm processes, operators. It has the minimum
// subjects of each role, and the file that assigns roles to users.
//
// A users file has one line per user: the name, the role and the bcrypt hash of the password,
// separated by blanks. It contains no password. Empty lines and lines that begin with # are
// ignored.
//
// The server computes the rights from the job's name and input subject at its start, so they
// always match the running program: no file stores them.
//
// One limit of the rights: a user with the right to create a consumer chooses its delivery
// subject, and the server does not check whether the user may publish there.
//
// # Files
//
//   - roles.go: defines the subjects that each role may use
//   - users.go: reads the file of users
package roles
