// Package fairmigrate makes replicas of a program migrate a database with golang-migrate one
// after the other.
//
//	driver = fairmigrate.NewDriver(ctx, driver, mutex.New(s, "migrate/orders"), &fairmigrate.Options{
//		LockTimeout: time.Hour, DriverLock: true,
//	})
//	m, err := migrate.NewWithInstance("iofs", files, "pgx5", driver)
//	m.LockTimeout = time.Hour
//	err = m.Up()
//
// golang-migrate has no contexts. Driver stops between two migrations when the lock is lost or ctx
// ends; a statement that runs is not stopped. It takes any session.Session.
package fairmigrate
