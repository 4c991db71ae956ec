// Package webguard refuses HTTP requests that a foreign web page makes a browser send. A server
// on a loopback address is reachable for every page open in a browser of the same machine. Two
// checks prevent such requests:
//
//   - A request with changes from a page of another origin (Sec-Fetch-Site, Origin) is
//     refused. net/http.CrossOriginProtection decides.
//   - A server without a login accepts only host names that no attacker can register:
//     IP addresses, names without a dot, names reserved for local networks, the name of
//     the machine, and configured names. A page after DNS rebinding to this machine
//     sends its own host name.
//
// Programs send neither Sec-Fetch-Site nor Origin, so the first check does not affect them.
package webguard
