package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// MaxPartitions is the largest number of partitions of a job.
const MaxPartitions = 4096

// MaxConsumers is how many consumers a job's NATS streams may have. Each partition has
// one on the input; consumers of killed workers stay for half a minute, and jobs that
// share the input and readers have more. A server allows 1,000 if no limit is
// configured (default_max_consumers).
const MaxConsumers = 16 * MaxPartitions

// UsualConsumers is the limit of a server if neither NATS stream, account nor
// configuration has a limit.
const UsualConsumers = 1000

// ManyConsumers is the share of its limit at which a NATS stream is nearly full.
const ManyConsumers = .8

// ConsumersFor returns how many consumers an input with the given partitions must
// allow: twice, for a killed worker and for the next worker.
func ConsumersFor(partitions int) int { return 4 * partitions }

// ConsumerLimit returns how many consumers a NATS stream may have, by the configuration
// and the account; nil: the account is unknown.
func ConsumerLimit(s jetstream.StreamConfig, account *jetstream.AccountInfo) int {
	limit := s.MaxConsumers
	if most := accountConsumers(s, account); most > 0 && (limit <= 0 || most < limit) {
		limit = most
	}
	if limit <= 0 {
		limit = UsualConsumers
	}
	return limit
}

// accountConsumers is the account's limit for a NATS stream; not above 0 = none.
func accountConsumers(s jetstream.StreamConfig, account *jetstream.AccountInfo) int {
	if account == nil {
		return 0
	}
	if tier, ok := account.Tiers[fmt.Sprintf("R%d", max(1, s.Replicas))]; ok {
		return tier.Limits.MaxConsumers
	}
	return account.Limits.MaxConsumers
}

// FewConsumers returns a warning if an input with the given partitions may allow too
// few consumers; empty if enough are allowed.
func FewConsumers(in jetstream.StreamConfig, account *jetstream.AccountInfo, partitions int) string {
	limit, need := ConsumerLimit(in, account), ConsumersFor(partitions)
	if limit >= need {
		return ""
	}
	do := fmt.Sprintf("raise max_consumers of the NATS stream to %d", MaxConsumers)
	if most := accountConsumers(in, account); most > 0 && most < need {
		do = fmt.Sprintf("raise max_consumers of the account's JetStream limits to %d or more", need)
		if in.MaxConsumers > 0 && in.MaxConsumers < need {
			do += fmt.Sprintf(", and that of the NATS stream to %d", MaxConsumers)
		}
	}
	return fmt.Sprintf("NATS stream %s may have %d consumers (the lowest of its max_consumers, the account's and, without either, the server's default_max_consumers), and %d partitions need up to %d when workers are killed and start again: %s", in.Name, limit, partitions, need, do)
}

// tooManyConsumers reports whether the server refused a limit of consumers above the
// account's limit.
func tooManyConsumers(err error) bool {
	const maximumConsumersLimit = 10026
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == maximumConsumersLimit
}

// CreateStream creates a NATS stream with a limit of MaxConsumers, or the account's
// limit if lower.
func CreateStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want.MaxConsumers = MaxConsumers
	s, err := js.CreateStream(ctx, want)
	if tooManyConsumers(err) {
		want.MaxConsumers = -1
		s, err = js.CreateStream(ctx, want)
	}
	return s, err
}
