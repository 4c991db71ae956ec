package natsclient

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// AnswersTo reports whether a responder may answer to a reply subject: only to an
// inbox, of the default prefix or of the responder's own connection. A consumer can be
// configured to deliver to any subject, including a responder's subject. Such a
// delivery has the reply $JS.ACK..., which a login's rights may or may not include.
func AnswersTo(nc *nats.Conn, reply string) bool {
	prefix := nc.Opts.InboxPrefix
	return strings.HasPrefix(reply, nats.InboxPrefix) || prefix != "" && strings.HasPrefix(reply, strings.TrimSuffix(prefix, ".")+".")
}

// RefusedAnswer reports whether the server has refused a message to an inbox or an
// acknowledgement: an answer to a subject chosen by another client. It does not concern
// the rights for the login's own work.
func RefusedAnswer(nc *nats.Conn, err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	_, rest, found := strings.Cut(err.Error(), `Permissions Violation for Publish to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	return found && (AnswersTo(nc, subject) || strings.HasPrefix(subject, "$JS.ACK."))
}
