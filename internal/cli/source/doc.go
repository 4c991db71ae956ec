// Package source plays archives as live data: what "replay" and "demo" publish; and
// keeps live data as archives: what "record" writes.
package source
