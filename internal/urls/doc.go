// Package urls parses URLs from users, and redacts URLs in messages. A URL may contain a user
// and a password, which no message may print: errors of net/url repeat their input, or a part
// of it. So all code parses a user's URL with Parse, and prints a URL with Redact.
package urls
