// Package simulate runs a job on a cluster of NATS servers in simulated time: each message
// from its arrival to the commit of its prediction, through queues for cores, networks,
// disks and goroutines, with faults. It knows no server and no model, only service times;
// plan --simulate gives it measured ones.
//
// # The cell
//
// A cell is one job, or a few, and the servers that serve nothing else. Each server has a number of cores, a
// network each way, a disk, a NATS server and a worker with a shard for each core. Server j
// leads the input of job j, the next one its output; with three replicas the two after a leader, in a
// circle, follow it. A fleet is many cells that share nothing, so one is enough.
//
// # The way of a message
//
//	arrives               at the moment that the Arrival says
//	network in            of the input's leader: bytes / Network
//	input's goroutine     one message at a time: Store, on one of the leader's cores
//	disk                  Write times the bytes; it waits only where more is unwritten than the cache takes
//	replicas              network out, network in, Copy on a core and the disk of each follower; the
//	                      message is stored when the first of two has it, as two of three are a majority
//	deliver               one consumer for each worker: Store again, on a core of the leader; network, to another server
//	shard                 a batch: closed after Latency, at Most messages, or later while the commits before
//	                      have no answer (as pipeline/internal/shard: Collect)
//	compute               Call for the batch and Compute for each message, on a core of the worker
//	commit                one message for each partition of the batch: Commit on a core of the worker, Store by
//	                      the output's goroutine; the replicas as above. The prediction is there.
//
// Cores and goroutines serve first come, first served, and are not interrupted. What is
// left out: garbage collection and other pauses of a machine, fsync for each message, lost
// packets, raft's heartbeats.
//
// # Faults
//
// A killed worker's partitions go to the living workers, or to itself when it has started again, when its lease
// is over. Each is restored (its share of the states, read by Restore), replays what came since its
// snapshot without committing, and then what waits. A killed server is a killed worker, and what it leads is
// led by its first living follower after Election; its messages that were not stored are
// sent again then. An outage of the uplink holds back all that would have arrived.
package simulate
