// Package source plays archives as live data: what "replay" and "demo" publish.
package source
