// Package faircron makes replicas of a program with robfig/cron share their jobs.
//
//	every5, err := cron.ParseStandard("*/5 * * * *")
//	c.Schedule(faircron.OncePerTick(ctx, every5, mutex.New(s, "cron/report"), logger, report))
//
// OncePerTick runs each tick exactly once, as long as the process that runs it does not die in
// the middle. SkipIfHeld and Elector.OnlyLeader are wrappers for jobs that promise less: a
// wrapper does not know which tick a run is for. All three end the context of a job when its
// lock is lost, and take any session.Session.
package faircron
