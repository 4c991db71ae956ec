// Package datafile defines the limits of data files and the error of a file's content,
// for packages that read archives and other formats.
//
// # Files
//
//   - limits.go: defines the limits of channels and values, and the errors of data sets
//   - content.go: marks errors of a file's content
package datafile
