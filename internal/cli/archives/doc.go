// Package archives opens the archives of a command line: data sets and recordings, or the only archive in a folder.
// Its errors name the next command.
package archives
