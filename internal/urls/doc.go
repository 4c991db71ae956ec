// Package urls reads the URLs that users give to the program, and shows them in messages.
// A URL may have a user and a password in it, which no message may show: the errors of
// net/url repeat the text that they are about, or a part of it. So everything that reads
// a URL of a user calls Parse, and everything that shows one calls Redact.
package urls
