// Package servicecmd has the commands that make the program a service of Windows.
package servicecmd
