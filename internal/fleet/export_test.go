package fleet

import "time"

func init() { heartbeatEvery = 200 * time.Millisecond }
