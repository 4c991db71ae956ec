// Package webguard refuses HTTP requests that a web page of somebody else makes the
// browser of a person send. A server that listens on a loopback address is reachable
// for every page that is open in a browser of that machine. Two checks close that way:
//
//   - A request that changes something and comes from a page of another origin
//     (Sec-Fetch-Site, Origin) is refused. net/http.CrossOriginProtection decides.
//   - A server without a login accepts only host names that no attacker can register:
//     IP addresses, names without a dot, names that are reserved for local networks,
//     the name of the machine, and names that the configuration lists. A page whose
//     name was pointed at this machine (DNS rebinding) sends its own name.
//
// Programs send neither Sec-Fetch-Site nor Origin, and are not affected by the first
// check.
package webguard
