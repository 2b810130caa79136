// Package fairgocron makes replicas of a scheduler of gocron share their jobs.
//
//	once := fairgocron.NewOnce(mutex.New(s, "gocron/report"), report)
//	_, err := scheduler.NewJob(
//		gocron.CronJob("*/5 * * * *", false), once.Task(), once.Schedule(),
//		gocron.WithName("report"),
//	)
//
// Once runs each tick exactly once, as long as the process that runs it does not die in the
// middle, and ends the context of the job when its lock is lost. Locker and Elector fit into
// gocron's interfaces for that, which promise less: neither knows which tick a run is for. All
// three take any session.Session.
package fairgocron
