// Package rule decides which entries of a queue hold. It is pure: it looks at entries
// and changes nothing, so it serves the engine, which acts on it, and tools, which only
// show it.
//
// # The one idea
//
// Every recipe is the same act: an entry joins a queue, and holds when a rule over the
// entries ahead of it allows that.
//
//	recipe           an entry holds when                its verdict waits for
//	mutex, election  no entry is ahead                  the nearest ahead
//	read lock        no writer is ahead                 the nearest writer ahead
//	write lock       no entry is ahead                  the nearest ahead
//	semaphore        its weight and the weights of all  the one before, until that one
//	                 ahead are within the limit         holds; then any holder
//
// # Why it is sound
//
// The service gives every entry a place behind all that exist, so the set ahead of an
// entry only ever shrinks. Every rule is monotone: with fewer entries ahead, with more
// marks on them, or with a higher limit, an entry that holds still holds. So an entry
// that may hold at any one moment after it joined holds from then on, for as long as it
// lives. Only the limit of a semaphore can fall; an entry that fitted before that keeps
// its permits.
//
// No entry overtakes: what is behind an entry never matters to it. So neither readers
// nor writers starve, nor do requests for many permits.
package rule
