package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// DefaultBehind is how far a job may be behind its input before that is a problem.
const DefaultBehind = time.Minute

const (
	current      = 5 * time.Second  // a job that is behind by less is up to date
	recent       = 10 * time.Minute // an error of a log
	fullDays     = 7                // an account whose storage is full sooner
	fullShare    = .85              // an account that has used more
	deadShare    = .01              // of messages that could not be used
	deadMost     = .5               // more of them are a problem
	silentInput  = time.Minute      // without a sample: the verdict says so
	deadAtLeast  = 10
	mostNamed    = 3
	longVerdict  = 160 // bytes of a finding in it; the finding is whole
	operationsMD = "docs/operations.md"
	gatewayMD    = "docs/gateway.md"
	outbox       = "outbox" // what a finding about it is about
	lagUnknown   = "unknown lag"
	deadLetters  = "dead letters"
	outboxLeast  = 1000 // batches
	outboxTime   = 10 * time.Second
	refusedShare = .01 // of a gateway's messages
	refusedLeast = 10
	outputLeast  = 10 // events of an output of the alarms that wait
)

// Judge says what the report's figures mean: level, verdict, findings and what to do
// first. behind is how far a job may be behind before that is a problem.
func (r *Report) Judge(behind time.Duration) {
	r.Findings = []Finding{}
	if r.Partitions.Lost != "" {
		r.add(Problem, "output", r.Partitions.Lost, r.Partitions.Regain)
	}
	r.aboutWorkers()
	r.aboutPartitions()
	r.aboutLag(behind)
	r.aboutModels()
	r.aboutGateways()
	r.aboutVanished()
	r.aboutAlarms()
	r.aboutCertificates()
	r.aboutDisk()
	r.aboutLosses()
	r.aboutLog()
	if len(r.Unknown) > 0 {
		r.add(Attention, "unknown", "not everything could be asked: "+r.Unknown[0], "ask again in a moment; if it stays so: the load and the disk of the server's machine, or the same command with the login of an operator (docs/secure.md)")
	}
	rank := map[Level]int{Problem: 0, Attention: 1, OK: 2}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(rank[a.Level], rank[b.Level]) })
	r.Level, r.First = OK, ""
	if len(r.Findings) > 0 {
		r.Level = r.Findings[0].Level
	}
	for _, f := range r.Findings {
		if r.First = f.Do; r.First != "" {
			break
		}
	}
	r.Verdict = r.verdict()
}

func (r *Report) add(level Level, about, sentence, do string) {
	r.Findings = append(r.Findings, Finding{level, about, sentence, do})
}

// stages are the workers that answer.
func (r *Report) stages() (all []*Process) {
	for i := range r.Processes {
		if r.Processes[i].Stage != nil {
			all = append(all, &r.Processes[i])
		}
	}
	return all
}

// verdict is the report in one sentence.
func (r *Report) verdict() string {
	head := fmt.Sprintf("%s, %s", count(r.Partitions.Count, "partition"), count(len(r.stages()), "worker"))
	worst := r.Findings[:min(1, len(r.Findings))]
	switch {
	case len(worst) > 0 && worst[0].Level == Problem:
		return head + ": " + cut(worst[0].Sentence, longVerdict)
	case r.Lag.behind() > current.Seconds():
		return fmt.Sprintf("%s, %s behind: %s", head, seconds(r.Lag.behind()), r.answered())
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == lagUnknown }):
		return head + ", it is not known how far behind: " + r.answered()
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == outbox }):
		return head + ", samples wait in a gateway: " + r.answered()
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.About == deadLetters }):
		return head + ": " + r.unused() + "; " + r.latest()
	case r.Partitions.Phases[string(pipeline.Reading)] < r.Partitions.Count:
		return fmt.Sprintf("%s, %d of them read: %s", head, r.Partitions.Phases[string(pipeline.Reading)], r.answered())
	}
	return head + ", up to date: " + r.answered()
}

// answered says when the last sample was, and how many messages became dead letters.
func (r *Report) answered() string {
	if n := r.totals().DeadLetters; n > 0 {
		return fmt.Sprintf("%s; %s could not be used", r.latest(), count(int(n), "message"))
	}
	return r.latest()
}

// latest says when the last sample was.
func (r *Report) latest() string {
	switch {
	case r.Lag.Answered < 0 || r.Lag.Arrived < 0:
		return "no sample has come yet"
	case r.Lag.Arrived > silentInput.Seconds() && r.Lag.Messages == 0:
		return "no sample has come for " + seconds(r.Lag.Arrived)
	}
	return "last sample answered " + seconds(r.Lag.Answered) + " ago"
}

// unused says how many of the messages became dead letters.
func (r *Report) unused() string {
	all := r.totals() // its Messages are those that were used
	return fmt.Sprintf("the job answers %d of %d messages, %d could not be used", all.Messages, all.Messages+all.DeadLetters, all.DeadLetters)
}

// totals counts what the workers did since they began.
func (r *Report) totals() (all Totals) {
	for _, p := range r.stages() {
		t := p.Stage.Totals
		all.Messages, all.DeadLetters, all.Losses = all.Messages+t.Messages, all.DeadLetters+t.DeadLetters, all.Losses+t.Losses
	}
	return all
}

func (r *Report) aboutWorkers() {
	here, waits := r.stages(), ""
	if r.Lag.Messages > 0 {
		waits = fmt.Sprintf("; %s to be answered", count(int(r.Lag.Messages), "message")+" "+verb(r.Lag.Messages, "waits", "wait"))
		if r.Partitions.Lost == "" {
			waits += ", and nothing is lost"
		}
	}
	switch {
	case len(here) == 0 && len(r.Silent) == 0:
		r.add(Problem, "workers", "no worker runs"+waits, "eusn-stream run -c FILE, with the configuration of the job's stage; it continues where the last one stopped")
	case len(here) == 0:
		r.add(Problem, "workers", "no worker answers, although the job's list has "+named(r.Silent)+waits,
			"ask again in ten seconds; then look at the log of these workers: one that was killed leaves the list when its lease ends, then start it again; one whose machine has too much to do answers late")
	case len(r.Silent) > 0:
		r.add(Attention, "workers", fmt.Sprintf("%s of the job's list %s not answer: %s", count(len(r.Silent), "worker"), verb(int64(len(r.Silent)), "does", "do"), named(r.Silent)),
			"ask again in half a minute: the others take over what a killed worker had when its lease ends (stage.lease); if it still does not answer, look at its log")
	}
	for _, p := range here {
		if s := p.Stage; !s.Ready && len(s.Unready) > 0 && s.Phases[string(pipeline.Stopped)]+s.Phases[string(pipeline.Deferred)] == 0 { // those are findings of their own
			r.add(Attention, "workers", fmt.Sprintf("worker %s is not ready: %s", place(p), s.Unready[0]), "wait; if it lasts longer than a minute: the worker's log, and docs/faults.md")
		}
		if p.Stage.Behind > 0 {
			r.add(Attention, "replicas", fmt.Sprintf("%s of the job's NATS streams %s not current", count(int(p.Stage.Behind), "replica"), verb(p.Stage.Behind, "is", "are")), "check that every server of the cluster runs: docs/durability.md")
		}
	}
	if r.Strange > 0 {
		r.add(Attention, "answers", fmt.Sprintf("%d answers were not those of a process of this job", r.Strange), "another program, or one of another version, answers there: compare eusn-stream version, on the job's machines")
	}
}

func (r *Report) aboutPartitions() {
	by := map[string][]*Partition{}
	var waiting []*Partition
	for i := range r.Partitions.List {
		p := &r.Partitions.List[i]
		by[p.Phase] = append(by[p.Phase], p)
		if p.Phase == string(pipeline.Reading) && p.Why != "" {
			waiting = append(waiting, p)
		}
	}
	say := func(level Level, all []*Partition, is, do string) {
		if len(all) == 0 {
			return
		}
		why := ""
		if all[0].Why != "" {
			why = ": " + all[0].Why
		}
		r.add(level, "partitions", fmt.Sprintf("%s (%s) %s %s%s", count(len(all), "partition"), numbers(all), verb(int64(len(all)), "is", "are"), is, why), do)
	}
	say(Problem, by[string(pipeline.Stopped)], "stopped", "the sentence says what to do; "+operationsMD+", When a partition does not work")
	say(Problem, by[string(pipeline.Deferred)], "deferred, because the server refuses what is needed or does not answer", "eusn-stream doctor; the worker tries again by itself")
	say(Problem, waiting, "not answered, because the server takes no predictions", "eusn-stream doctor: check that the NATS server runs and that its disk, and the limits of the job's NATS streams, are not reached")
	if len(r.stages()) == 0 {
		return
	}
	say(Attention, by[Nobody], "without a worker now", "wait until the lease of the last owner ends (stage.lease); if it lasts: eusn-stream partitions, and the logs of the workers")
	var coming []*Partition
	for _, phase := range []pipeline.Phase{pipeline.Claiming, pipeline.Restoring, pipeline.Replaying} {
		coming = append(coming, by[string(phase)]...)
	}
	say(Attention, coming, "on the way to be read (claimed, restored, replayed)", "wait; replaying takes as long as the input since the last snapshot")
}

func (r *Report) aboutLag(behind time.Duration) {
	if len(r.stages()) == 0 {
		return
	}
	if r.Lag.Unknown > 0 {
		r.add(Attention, lagUnknown, fmt.Sprintf("of %s it is not known whether messages wait: the server has not said which message is the oldest", count(r.Lag.Unknown, "partition")),
			"ask again in a moment; if it stays so: the load and the disk of the server's machine")
	}
	if r.Lag.behind() <= current.Seconds() {
		return
	}
	level := Attention
	if r.Lag.behind() > behind.Seconds() {
		level = Problem
	}
	does := "and answers nothing now"
	if r.Rates.Messages > 0 {
		does = fmt.Sprintf("and answers %.0f messages a second", r.Rates.Messages)
	}
	r.add(level, "lag", fmt.Sprintf("the job is %s behind (%s or more) %s", seconds(r.Lag.behind()), count(int(r.Lag.Messages), "message"), does),
		"wait while it catches up; if the lag grows, start one more worker: eusn-stream run -c FILE, on one more machine, with the same configuration")
}

func (r *Report) aboutModels() {
	if !r.Model.Differ {
		return
	}
	var all []string
	for _, p := range r.stages() {
		all = append(all, fmt.Sprintf("%s has %s (%.12s)", place(p), p.Stage.Model.Name, p.Stage.Model.SHA256))
	}
	r.add(Attention, "model", "the workers have different models: "+named(all), "eusn-stream model show active --out FILE, and start each worker with that file")
}

func (r *Report) aboutGateways() {
	for i := range r.Processes {
		p := &r.Processes[i]
		if g := p.Gateway; g != nil && g.HoldingBack {
			r.add(Problem, "gateway", fmt.Sprintf("gateway %s acknowledges no device, because the server takes nothing; %s in its outbox", place(p), count(int(g.Waiting), "batch")+" "+verb(g.Waiting, "waits", "wait")),
				"eusn-stream doctor: check that the NATS server runs and that its disk, and the limits of the job's input, are not reached")
		} else if g != nil {
			r.aboutGateway(place(p), g)
		}
	}
}

// aboutGateway is about one that acknowledges.
func (r *Report) aboutGateway(at string, g *Gateway) {
	var taken, refused uint64
	for _, n := range g.Messages {
		taken += n
	}
	for _, n := range g.Refused {
		refused += n
	}
	// A batch has a sample or more: so much or more waits.
	if waits := float64(g.Waiting) / max(g.Rates.Samples, 1); g.Waiting >= outboxLeast && waits > outboxTime.Seconds() {
		r.add(Attention, outbox, fmt.Sprintf("gateway %s has %s in its outbox, more than what %s bring: these samples are not yet in the job, and nothing is lost", at, count(int(g.Waiting), "batch"), seconds(outboxTime.Seconds())),
			"ask again in a minute: does the outbox shrink? If it grows, the server takes less than the devices send: the load and the disk of the server's machine; devices that send several samples in a message take less ("+gatewayMD+")")
	}
	if refused >= refusedLeast && float64(refused) > refusedShare*float64(taken+refused) {
		r.add(Attention, "gateway", fmt.Sprintf("gateway %s has refused %d of %d messages since it began: the samples in them are not used", at, refused, taken+refused),
			"the gateway's log, which says which ones and why; "+gatewayMD)
	}
}

func (r *Report) aboutAlarms() {
	watched := slices.ContainsFunc(r.Processes, func(p Process) bool { return p.Watch != nil && !p.Watch.Standby })
	if r.Alarms.Kept && !watched {
		r.add(Attention, "alarms", "the job has an alarm log, and no process of alarms answers: nobody judges its predictions", "eusn-stream alarms run -c FILE, with the configuration that has the rules; it continues where the last one stopped")
	}
	for _, o := range r.Alarms.Outputs {
		switch {
		case o.Paused:
			r.add(Problem, "alarms", fmt.Sprintf("somebody has paused the consumer %s of the alarm log: %s not sent", o.Name, count(int(o.Waiting), "event")+" "+verb(int64(o.Waiting), "is", "are")), "the process of alarms resumes it within half a minute; find out whose login it was: docs/alarms.md, Rights")
		case o.Differs != "":
			r.add(Problem, "alarms", fmt.Sprintf("somebody has changed the consumer %s of the alarm log (%s): events are not sent, or not all", o.Name, o.Differs), "the process of alarms makes it again within half a minute, behind the last event that was sent; find out whose login it was: docs/alarms.md, Rights")
		case o.Waiting >= outputLeast:
			r.add(Attention, "alarms", fmt.Sprintf("%s to be sent by the output %s", count(int(o.Waiting), "event")+" "+verb(int64(o.Waiting), "waits", "wait"), o.Name), "the log of the process of alarms, which says what the receiver answers; events that wait are kept")
		}
	}
	if n := r.Alarms.Open; n > 0 {
		r.add(Attention, "alarms", fmt.Sprintf("%s on and not acknowledged", count(n, "alarm")+" "+verb(int64(n), "is", "are")), "eusn-stream alarms list")
	}
}

// aboutCertificates is about those that end soon, or have ended.
func (r *Report) aboutCertificates() {
	const renew = "renew it: eusn-stream config init --secure --renew, for a certificate that it has made; listeners read it again automatically (docs/secure.md)"
	for i := range r.Processes {
		for _, c := range r.Processes[i].Certificates {
			of := fmt.Sprintf("the certificate %s of the %s %s", c.Key, r.Processes[i].Role, place(&r.Processes[i]))
			switch left := c.Ends.Sub(r.Time); {
			case left <= 0:
				r.add(Problem, "certificate", fmt.Sprintf("%s has expired at %s: nobody accepts it", of, c.Ends.Format(time.RFC3339)), renew)
			case left < certs.WarnBefore:
				r.add(Attention, "certificate", fmt.Sprintf("%s expires at %s, in %s", of, c.Ends.Format(time.RFC3339), seconds(left.Seconds())), renew)
			}
		}
	}
}

func (r *Report) aboutDisk() {
	d := &r.Disk
	if d.Limit == 0 {
		return
	}
	share := float64(d.Used) / float64(d.Limit)
	full := float64(d.Limit-min(d.Limit, d.Used)) / max(d.PerDay, 1)
	if share > fullShare || d.PerDay > 0 && full < fullDays {
		r.add(Attention, "disk", fmt.Sprintf("the account has used %.0f %% of what it may store (%s of %s); at %s a day it is full in %.1f days", 100*share, size(float64(d.Used)), size(float64(d.Limit)), size(d.PerDay), full),
			"raise the account's limit of storage, or set input.max_age: "+operationsMD+", Disk")
	}
}

func (r *Report) aboutLosses() {
	all := r.totals()
	if all.Losses > 0 {
		r.add(Attention, "losses", fmt.Sprintf("before %s, input may have been removed unread", count(int(all.Losses), "message")), operationsMD+" and the workers' logs say which; raise input.max_age or input.max_bytes")
	}
	share := float64(all.DeadLetters) / float64(max(all.Messages+all.DeadLetters, 1))
	if all.DeadLetters < deadAtLeast || share <= deadShare {
		return
	}
	level := Attention
	if share > deadMost {
		level = Problem
	}
	r.add(level, deadLetters, r.unused(), "eusn-stream deadletter list, which says why")
}

func (r *Report) aboutLog() {
	n, last := 0, Said{}
	for _, e := range r.Errors {
		if r.Partitions.Phases[string(pipeline.Stopped)] > 0 && strings.HasPrefix(e.Text, "partition stopped") {
			continue // it is a finding already
		}
		if e.Level == "ERROR" && r.Time.Sub(e.Time) < recent {
			if n++; n == 1 {
				last = e
			}
		}
	}
	if n > 0 {
		r.add(Attention, "log", fmt.Sprintf("%s in the last ten minutes; the last one (%s): %s", count(n, "error"), last.From, last.Text), "look that line up in docs/faults.md, which says what it means")
	}
}

// place is a process for people.
func place(p *Process) string { return fmt.Sprintf("on %s (process %d)", cmp.Or(p.Host, "?"), p.PID) }

// count is so many of something, with an s, or es, unless it is one.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "ch") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// named are the first names of a list.
func named(all []string) string {
	if more := len(all) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

func numbers(all []*Partition) string {
	var list []string
	for _, p := range all {
		list = append(list, fmt.Sprint(p.Partition))
	}
	return named(list)
}

// seconds is a time that has passed, for people.
func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}

// size is a number of bytes, for people.
func size(b float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if b < 1000 {
			return fmt.Sprintf("%.3g %s", b, unit)
		}
		b /= 1000
	}
	return fmt.Sprintf("%.3g TB", b)
}
