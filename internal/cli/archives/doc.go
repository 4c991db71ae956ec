// Package archives opens the archives that a command line names: data sets and
// recordings, or the one archive in a folder. Its errors name the next command.
package archives
