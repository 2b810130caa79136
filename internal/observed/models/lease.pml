/* An observed lease: the store keeps no time. The owner of a session counts from the sending of the
   newest acknowledged renewal, and an observer from the receipt of the first answer with a version.
   See package observed. models_test.go has how to run it.

   One owner, one observer: several observers only compare and delete more often. A renewal may be
   lost, refused, or arrive after its sender has given it up. A read may be on its way for any time.
   Asserted: when the session has been ended, its owner does not trust it. */
#ifndef TTL
#define TTL 4           /* ticks, for the owner and for the observer */
#endif
#ifndef MARGIN
#define MARGIN 1        /* by which the owner stops earlier */
#endif
#define RENEWALS 6      /* at most so many are applied */
#define NONE 0          /* of a renewal or a read: */
#define SENT 1
#define APPLIED 2
#define REFUSED 3

/* the store */
byte version = 0;
bool there = true;      /* the session */

/* the owner */
byte trust = TTL-MARGIN;        /* ticks in which it trusts the session */
byte renewal = NONE, age = 0;   /* the renewal under way, and the ticks since it was sent */
bool late = false;              /* one that was given up may still arrive */

/* the observer */
byte seen = 0;          /* the version that it counts for */
byte left = TTL;        /* ticks until it may end the session */
#ifdef DRIFT            /* its clock gains one tick in a count, and MARGIN covers that */
bool gained = false;
#endif
byte read = NONE, shown = 0, asked = 0; /* the read under way: what it shows, ticks since it was sent */

#ifdef NOCOMPARE        /* planted: an end does not compare the version */
#define SAME true
#else
#define SAME (seen == version)
#endif
#ifdef KEEPAGE          /* planted: another version does not begin the count again */
#define COUNT skip
#elif defined(FROMSEND) /* planted: the observer counts from the sending of its read */
#define COUNT left = (asked < TTL -> TTL-asked : 0)
#else
#define COUNT left = TTL
#endif
#ifdef DRIFT
#define EVEN gained = false
#else
#define EVEN skip
#endif

active proctype World() {
 do
 /* the owner renews, while it trusts the session */
 :: d_step { renewal == NONE && trust > 0 && version < RENEWALS -> renewal = SENT; age = 0 }
 :: d_step { renewal == SENT && there -> version++; renewal = APPLIED }
 :: d_step { renewal == SENT && !there -> renewal = REFUSED }
 :: d_step { renewal == APPLIED -> renewal = NONE;      /* answered, perhaps too late */
      if :: trust > 0 && TTL-MARGIN > age && TTL-MARGIN-age > trust -> trust = TTL-MARGIN-age :: else fi; assert(there || trust == 0) }
 :: d_step { renewal == REFUSED -> renewal = NONE; trust = 0 }
 :: d_step { renewal == APPLIED -> renewal = NONE }     /* the answer is lost */
 :: d_step { renewal == SENT && !late -> renewal = NONE; late = true }
 :: d_step { late && there && version < RENEWALS -> late = false; version++ }
 :: d_step { late -> late = false }

 /* the observer reads, counts and ends */
 :: d_step { read == NONE -> read = SENT; asked = 0 }
 :: d_step { read == SENT -> read = APPLIED; shown = version }
 :: d_step { read == APPLIED -> read = NONE; if :: shown != seen -> seen = shown; COUNT; EVEN :: else fi; shown = 0; asked = 0 }
 :: d_step { left == 0 && there && SAME -> there = false; assert(trust == 0) }
#ifdef DRIFT
 :: d_step { left > 0 && !gained -> left--; gained = true }
#endif
#ifdef REACH            /* not an error: shows that sessions are ended after they were renewed */
 :: d_step { !there && version > 2 -> assert(false) }
#endif

 /* a tick */
 :: d_step { true ->
      if :: trust > 0 -> trust-- :: else fi;
      if :: left > 0 -> left-- :: else fi;
      if :: renewal != NONE && age < TTL -> age++ :: else fi;
      if :: read != NONE && asked < TTL -> asked++ :: else fi }
 od }
