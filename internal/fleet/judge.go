package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// AdviseLost returns the next steps after the loss of stored data of a job.
func AdviseLost(lost *store.LostError) string {
	return "search the server's log for \"Missing stream checksum file\": if it is there, no data is lost: stop the server, run eusn-stream doctor --repair STORE_DIR, and start both; if not, restore the NATS stream from a backup; without a backup, a new job can predict the input that is left: eusn-stream run --job NEW --input-job " + lost.Input
}

// DefaultBehind is the longest delay of a job that is not a problem.
const DefaultBehind = time.Minute

const (
	currentLag   = 5 * time.Second  // a job with a shorter delay is up to date
	recentTime   = 10 * time.Minute // maximum age of a log error
	fullDays     = 7                // an account that is full sooner
	fullShare    = .85              // an account that has used a larger share
	deadShare    = .01              // share of unusable messages
	deadMost     = .5               // a larger share is a problem
	silentInput  = time.Minute      // a longer time without a sample is part of the verdict
	deadAtLeast  = 10
	mostNamed    = 3
	longVerdict  = 160 // bytes of a finding in the verdict; the finding itself is not cut
	operationsMD = "docs/operations.md"
	gatewayMD    = "docs/gateway.md"
	outbox       = "outbox" // subject of findings about the outbox
	lagUnknown   = "unknown lag"
	deadLetters  = "dead letters"
	outboxLeast  = 1000 // batches
	outboxTime   = 10 * time.Second
	refusedShare = .01 // of a gateway's messages
	refusedLeast = 10
	outputLeast  = 10 // waiting events of an alarm output
)

// Judge derives level, verdict, findings and the first step from the report's figures. behind is
// the longest delay of the job that is not a problem.
func (r *Report) Judge(behind time.Duration) {
	r.Findings = []Finding{}
	if r.Partitions.Lost != "" {
		r.addFinding(Problem, "output", r.Partitions.Lost, r.Partitions.Regain)
	}
	r.judgeWorkers()
	r.judgePartitions()
	r.judgeLag(behind)
	r.judgeModels()
	r.judgeGateways()
	r.judgeVanished()
	r.judgeAlarms()
	r.judgeCertificates()
	r.judgeDisk()
	r.judgeLosses()
	r.judgeLog()
	if len(r.Unknown) > 0 {
		r.addFinding(Attention, "unknown", "some requests failed: "+r.Unknown[0], "repeat the command in a moment; if requests still fail, check the load and the disk of the server's machine, or use the login of an operator (docs/secure.md)")
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
	r.Verdict = r.formatVerdict()
}

func (r *Report) addFinding(level Level, about, sentence, do string) {
	r.Findings = append(r.Findings, Finding{level, about, sentence, do})
}

// workers returns the workers that answered.
func (r *Report) workers() (all []*Process) {
	for i := range r.Processes {
		if r.Processes[i].Stage != nil {
			all = append(all, &r.Processes[i])
		}
	}
	return all
}

func (r *Report) judgeWorkers() {
	here, waits := r.workers(), ""
	if r.Lag.Messages > 0 {
		waits = fmt.Sprintf("; %s to be answered", plural(int(r.Lag.Messages), "message")+" "+pluralVerb(r.Lag.Messages, "waits", "wait"))
		if r.Partitions.Lost == "" {
			waits += ", and nothing is lost"
		}
	}
	switch {
	case len(here) == 0 && len(r.Silent) == 0:
		r.addFinding(Problem, "workers", "no worker runs"+waits, "eusn-stream run -c FILE, with the configuration of the job's stage; it continues from the last position")
	case len(here) == 0:
		r.addFinding(Problem, "workers", "no worker answers, although the job's list names "+listNames(r.Silent)+waits,
			"repeat the command in ten seconds; then check the log of these workers: a killed worker leaves the list when its lease ends, then restart it; a worker on an overloaded machine answers late")
	case len(r.Silent) > 0:
		r.addFinding(Attention, "workers", fmt.Sprintf("%s of the job's list %s not answer: %s", plural(len(r.Silent), "worker"), pluralVerb(int64(len(r.Silent)), "does", "do"), listNames(r.Silent)),
			"repeat the command in half a minute: the other workers take over a killed worker's partitions when its lease ends (stage.lease); if the worker still does not answer, check its log")
	}
	for _, p := range here {
		if s := p.Stage; !s.Ready && len(s.Unready) > 0 && s.Phases[string(pipeline.Stopped)]+s.Phases[string(pipeline.Deferred)] == 0 { // these have their own findings
			r.addFinding(Attention, "workers", fmt.Sprintf("worker %s is not ready: %s", placeOf(p), s.Unready[0]), "wait; after a minute, check the worker's log, and docs/faults.md")
		}
		if p.Stage.Behind > 0 {
			r.addFinding(Attention, "replicas", fmt.Sprintf("%s of the job's NATS streams %s not current", plural(int(p.Stage.Behind), "replica"), pluralVerb(p.Stage.Behind, "is", "are")), "check that every server of the cluster runs: docs/durability.md")
		}
	}
	if r.Strange > 0 {
		r.addFinding(Attention, "answers", fmt.Sprintf("%d answers did not come from a process of this job", r.Strange), "another program, or another version, answers there: compare eusn-stream version, on the job's machines")
	}
}

func (r *Report) judgePartitions() {
	byPhase := map[string][]*Partition{}
	var waiting []*Partition
	for i := range r.Partitions.List {
		p := &r.Partitions.List[i]
		byPhase[p.Phase] = append(byPhase[p.Phase], p)
		if p.Phase == string(pipeline.Reading) && p.Why != "" {
			waiting = append(waiting, p)
		}
	}
	addFinding := func(level Level, all []*Partition, state, do string) {
		if len(all) == 0 {
			return
		}
		why := ""
		if all[0].Why != "" {
			why = ": " + all[0].Why
		}
		r.addFinding(level, "partitions", fmt.Sprintf("%s (%s) %s %s%s", plural(len(all), "partition"), partitionNumbers(all), pluralVerb(int64(len(all)), "is", "are"), state, why), do)
	}
	addFinding(Problem, byPhase[string(pipeline.Stopped)], "stopped", "the sentence names the remedy; "+operationsMD+", When a partition does not work")
	addFinding(Problem, byPhase[string(pipeline.Deferred)], "deferred, because the server refuses a request or does not answer", "eusn-stream doctor; the worker retries automatically")
	addFinding(Problem, waiting, "not answered, because the server stores no predictions", "eusn-stream doctor: check that the NATS server runs and that its disk and the job's NATS streams are not full")
	if len(r.workers()) == 0 {
		return
	}
	addFinding(Attention, byPhase[PhaseNobody], "without a worker", "wait until the lease of the last owner ends (stage.lease); after that: eusn-stream status --partitions, and the logs of the workers")
	var coming []*Partition
	for _, phase := range []pipeline.Phase{pipeline.Claiming, pipeline.Restoring, pipeline.Replaying} {
		coming = append(coming, byPhase[string(phase)]...)
	}
	addFinding(Attention, coming, "starting (claimed, restored, replayed)", "wait; replaying takes as long as the input since the last snapshot")
}

func (r *Report) judgeLag(behind time.Duration) {
	if len(r.workers()) == 0 {
		return
	}
	if r.Lag.Unknown > 0 {
		r.addFinding(Attention, lagUnknown, fmt.Sprintf("the delay of %s is unknown: the server did not report the oldest message", plural(r.Lag.Unknown, "partition")),
			"repeat the command in a moment; if the delay stays unknown, check the load and the disk of the server's machine")
	}
	if r.Lag.behindSeconds() <= currentLag.Seconds() {
		return
	}
	level := Attention
	if r.Lag.behindSeconds() > behind.Seconds() {
		level = Problem
	}
	action := "and answers no messages"
	if r.Rates.Messages > 0 {
		action = fmt.Sprintf("and answers %.0f messages a second", r.Rates.Messages)
	}
	r.addFinding(level, "lag", fmt.Sprintf("the job is %s behind (%s or more) %s", formatSeconds(r.Lag.behindSeconds()), plural(int(r.Lag.Messages), "message"), action),
		"wait while it catches up; if the lag grows, start another worker: eusn-stream run -c FILE, on another machine, with the same configuration")
}

func (r *Report) judgeModels() {
	if !r.Model.Differ {
		return
	}
	var all []string
	for _, p := range r.workers() {
		all = append(all, fmt.Sprintf("%s has %s (%.12s)", placeOf(p), p.Stage.Model.Name, p.Stage.Model.SHA256))
	}
	r.addFinding(Attention, "model", "the workers have different models: "+listNames(all), "eusn-stream model show active --output FILE, and start each worker with that file")
}

func (r *Report) judgeGateways() {
	for i := range r.Processes {
		p := &r.Processes[i]
		if g := p.Gateway; g != nil && g.HoldingBack {
			why, do := "the server stores no samples", "eusn-stream doctor: check that the NATS server runs and that its disk and the job's input are not full"
			if g.Unwritable {
				why, do = "its outbox cannot be written", "check the directory gateway.outbox and the free space there; the gateway then continues automatically ("+gatewayMD+")"
			}
			r.addFinding(Problem, "gateway", fmt.Sprintf("gateway %s does not acknowledge devices, because %s; %s in its outbox", placeOf(p), why, plural(int(g.Waiting), "batch")+" "+pluralVerb(g.Waiting, "waits", "wait")), do)
		} else if g != nil {
			r.judgeGateway(placeOf(p), g)
		}
	}
}

// judgeGateway judges a gateway that acknowledges.
func (r *Report) judgeGateway(place string, g *Gateway) {
	var taken, refused uint64
	for _, n := range g.Messages {
		taken += n
	}
	for _, n := range g.Refused {
		refused += n
	}
	// A batch has at least one sample: waits is a lower bound.
	if waits := float64(g.Waiting) / max(g.Rates.Samples, 1); g.Waiting >= outboxLeast && waits > outboxTime.Seconds() {
		r.addFinding(Attention, outbox, fmt.Sprintf("gateway %s has %s in its outbox, more than the input of %s: these samples are not yet in the job, and none is lost", place, plural(int(g.Waiting), "batch"), formatSeconds(outboxTime.Seconds())),
			"repeat the command in a minute. If the outbox grows, the server is slower than the devices: check the load and the disk of the server's machine; several samples in each message reduce the load ("+gatewayMD+")")
	}
	if refused >= refusedLeast && float64(refused) > refusedShare*float64(taken+refused) {
		r.addFinding(Attention, "gateway", fmt.Sprintf("gateway %s has refused %d of %d messages since its start: their samples are not used", place, refused, taken+refused),
			"check the gateway's log for the reasons; "+gatewayMD)
	}
}

func (r *Report) judgeAlarms() {
	watched := slices.ContainsFunc(r.Processes, func(p Process) bool { return p.Watch != nil && !p.Watch.Standby })
	if r.Alarms.Kept && !watched {
		r.addFinding(Attention, "alarms", "the job has an alarm log, but no alarm process answers: the predictions are not judged", "eusn-stream alarms run -c FILE, with the configuration of the rules; it continues from the last position")
	}
	for _, o := range r.Alarms.Outputs {
		switch {
		case o.Paused:
			r.addFinding(Problem, "alarms", fmt.Sprintf("the consumer %s of the alarm log was paused: %s not sent", o.Name, plural(int(o.Waiting), "event")+" "+pluralVerb(int64(o.Waiting), "is", "are")), "the alarm process resumes the consumer within half a minute; find out which login paused it: docs/alarms.md, Rights")
		case o.Differs != "":
			r.addFinding(Problem, "alarms", fmt.Sprintf("the consumer %s of the alarm log was changed (%s): some or all events are not sent", o.Name, o.Differs), "the alarm process recreates the consumer within half a minute, after the last sent event; find out which login changed it: docs/alarms.md, Rights")
		case o.Waiting >= outputLeast:
			r.addFinding(Attention, "alarms", fmt.Sprintf("%s to be sent by the output %s", plural(int(o.Waiting), "event")+" "+pluralVerb(int64(o.Waiting), "waits", "wait"), o.Name), "check the log of the alarm process for the receiver's answers; waiting events are kept")
		}
	}
	if n := r.Alarms.Open; n > 0 {
		r.addFinding(Attention, "alarms", fmt.Sprintf("%s active and not acknowledged", plural(n, "alarm")+" "+pluralVerb(int64(n), "is", "are")), "eusn-stream alarms list")
	}
}

// judgeCertificates reports certificates that expire soon or have expired.
func (r *Report) judgeCertificates() {
	const renew = "renew it: eusn-stream secure init --renew, for a certificate created by this command; listeners reload certificates automatically (docs/secure.md)"
	for i := range r.Processes {
		for _, c := range r.Processes[i].Certificates {
			certificate := fmt.Sprintf("the certificate %s of the %s %s", c.Key, r.Processes[i].Role, placeOf(&r.Processes[i]))
			switch left := c.Ends.Sub(r.Time); {
			case left <= 0:
				r.addFinding(Problem, "certificate", fmt.Sprintf("%s expired at %s: no program accepts it", certificate, c.Ends.Format(time.RFC3339)), renew)
			case left < certs.WarnBefore:
				r.addFinding(Attention, "certificate", fmt.Sprintf("%s expires at %s, in %s", certificate, c.Ends.Format(time.RFC3339), formatSeconds(left.Seconds())), renew)
			}
		}
	}
}

func (r *Report) judgeDisk() {
	d := &r.Disk
	if d.Limit == 0 {
		return
	}
	share := float64(d.Used) / float64(d.Limit)
	full := float64(d.Limit-min(d.Limit, d.Used)) / max(d.PerDay, 1)
	if share > fullShare || d.PerDay > 0 && full < fullDays {
		r.addFinding(Attention, "disk", fmt.Sprintf("the account has used %.0f %% of its storage limit (%s of %s); at %s a day it is full in %.1f days", 100*share, formatBytes(float64(d.Used)), formatBytes(float64(d.Limit)), formatBytes(d.PerDay), full),
			"raise the account's storage limit, or set input.max_age: "+operationsMD+", Disk")
	}
}

func (r *Report) judgeLosses() {
	all := r.sumTotals()
	if all.Losses > 0 {
		r.addFinding(Attention, "losses", fmt.Sprintf("before %s, input may have been removed unread", plural(int(all.Losses), "message")), operationsMD+" and the workers' logs name them; raise input.max_age or input.max_bytes")
	}
	share := float64(all.DeadLetters) / float64(max(all.Messages+all.DeadLetters, 1))
	if all.DeadLetters < deadAtLeast || share <= deadShare {
		return
	}
	level := Attention
	if share > deadMost {
		level = Problem
	}
	r.addFinding(level, deadLetters, r.deadLetterText(), "eusn-stream deadletter list, for the reasons")
}

func (r *Report) judgeLog() {
	n, last := 0, LogMessage{}
	for _, e := range r.Errors {
		if r.Partitions.Phases[string(pipeline.Stopped)] > 0 && strings.HasPrefix(e.Text, "partition stopped") {
			continue // this has its own finding
		}
		if e.Level == "ERROR" && r.Time.Sub(e.Time) < recentTime {
			if n++; n == 1 {
				last = e
			}
		}
	}
	if n > 0 {
		r.addFinding(Attention, "log", fmt.Sprintf("%s in the last ten minutes; the last one (%s): %s", plural(n, "error"), last.From, last.Text), "look up this line in docs/faults.md")
	}
}
