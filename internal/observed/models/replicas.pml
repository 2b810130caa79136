/* A master and asynchronous replicas, as of Redis: life, claim, quarantine and bless.
   See package observed. models_test.go has how to run it.

   Node 0 is the master at first, in life 1. Any replica may be promoted at any time, and gets a life
   that was never used before. The old master goes on, and may become a replica later. Each replica
   follows another master at any time, or never. It copies the present data of its master at any time,
   so it holds some prefix of what the master has done, and each copy acknowledges all that the master
   had applied before. A renewal, an opening and a claim are answered when one replica has acknowledged
   them: that and the master are a majority of three.

   Clients open sessions, renew, join, hold and release, claim, count, bless, and give up all of it at
   any time; they reach every master. Requests are applied when they are sent, and answered at any
   later time: a renewal that is applied later only gives a shorter trust window.
   Asserted: no client holds while another one trusts a session of another life, and no two hold. */
#ifndef NODES
#define NODES 3
#endif
#ifdef COUNTS
#define CLIENTS 3       /* see COUNTS below */
#else
#define CLIENTS 2
#endif
#ifndef TTL
#define TTL 2           /* ticks; also the greatest TTL of the store */
#endif
#ifndef MARGIN
#define MARGIN 0        /* of a holder, in ticks */
#endif
#ifndef LIVES
#define LIVES 2         /* at most so many */
#endif
#ifndef FLUSHES
#define FLUSHES 0       /* at most so often a master loses all data and keeps its life */
#endif
#define TAGS 4          /* at most so many claims are written */
#define NONE 0          /* of a request: */
#define RENEW 1
#define OPEN 2
#define CLAIM 3

byte lives = 1, flushes = 0, tags = 0;

/* the nodes: which one each follows (itself: it is a master), its life if it is a master, the newest life
   in which it has acknowledged, whether a replica has acknowledged anything to this master in this life */
byte follows[NODES], life[NODES], newest[NODES];
bit once[NODES];
/* what they store: the blessed life, the life and the tag of the claim (0: no claim), a bit for each
   client with a session, and the number of the holder (0: none) */
byte stored[NODES], next[NODES], tag[NODES], open[NODES], holder[NODES];

/* the clients: the life of the session (0: none), ticks in which the client trusts it */
byte session[CLIENTS], trust[CLIENTS];
bit holds[CLIENTS];
/* the request under way: its node, life and tag, ticks since it was sent, whether a replica has it */
byte request[CLIENTS], at[CLIENTS], inLife[CLIENTS], withTag[CLIENTS], age[CLIENTS];
bit acked[CLIENTS];
/* the claim that is counted, by its life and tag, and the ticks until it may be blessed */
byte countLife[CLIENTS], countTag[CLIENTS], left[CLIENTS];
#ifdef DRIFT            /* the clock of a counting client gains one tick in a count, and MARGIN covers that */
bit gained[CLIENTS];
#endif

byte k, o;              /* of loops; always 0 between steps */

#define master(n) (follows[n] == n)
#define blessed(n) (stored[n] == life[n])
#define claimed(n) (next[n] == life[n])
#define mine(i,n) (master(n) && blessed(n) && session[i] == life[n] && (open[n] & (1<<i)))
#define done(i) request[i] = NONE; at[i] = 0; inLife[i] = 0; withTag[i] = 0; age[i] = 0; acked[i] = 0; endShown(i)
#define over(i) session[i] = 0; trust[i] = 0; holds[i] = 0; if :: request[i] == RENEW -> done(i) :: else fi
#define check(i) o = 0; do :: o < CLIENTS -> if :: o != i && trust[i] > 0 && trust[o] > 0 -> \
      assert(!((holds[i] || holds[o]) && session[o] != session[i])); \
      assert(!(holds[i] && holds[o])) :: else fi; o++ :: else -> break od; o = 0
#define trusts(i) if :: TTL-MARGIN-age[i] > trust[i] -> trust[i] = TTL-MARGIN-age[i]; check(i) :: else fi
#define send(i,n,what) request[i] = what; at[i] = n; inLife[i] = life[n]; age[i] = 0; acked[i] = 0
#define count(i,l,t) countLife[i] = l; countTag[i] = t; left[i] = TTL
/* a master that restarts or becomes a replica does not answer what no replica has acknowledged */
#define drop(n) k = 0; do :: k < CLIENTS -> if :: request[k] != NONE && at[k] == n && !acked[k] -> done(k) :: else fi; k++ :: else -> break od; k = 0

/* Tokens come from the clock of the master, and are greater than the last one that it knows. Node 0's clock
   is ahead of the others' by AHEAD. Only node 1 is promoted: the clock of node 2 is the same. */
#ifdef TOKENS
#define SMALL 1
#define UNIT 4          /* tokens in a tick */
#ifndef AHEAD
#define AHEAD 1
#endif
byte now = 0, last[NODES], greatest = 0, joins = 0;
#define clock(n) (UNIT*now + (n == 0 -> AHEAD : 0))
#define again (joins < 2)
#define token(n) joins++; last[n] = (last[n]+1 > clock(n) -> last[n]+1 : clock(n)); assert(last[n] > greatest); greatest = last[n]
#define wipeToken(n) last[n] = 0
#define copyToken(to,from) last[to] = last[from]
#define PROMOTABLE(n) (n == 1)
#ifndef TICKS
#define TICKS 3         /* at most so many */
#endif
#define TICK now < TICKS -> now++
#ifdef NOMOVE           /* planted: a bless does not move the tokens on by the quarantine */
#define moveTokens(n) skip
#else
#define moveTokens(n) last[n] = (last[n] < clock(n) -> clock(n) : last[n]); last[n] = last[n]+UNIT*TTL
#endif
#else
#define again true
#define token(n) skip
#define wipeToken(n) skip
#define copyToken(to,from) skip
#define PROMOTABLE(n) true
#define TICK true
#define moveTokens(n) skip
#endif

/* What was counted for a claim is stored next to it, and whoever begins to count goes on from there. Client 0
   is the holder of before, and only renews. The others claim, count, add what they have counted since the
   answer that has shown the sum, forget, bless and open sessions. Node 1 is promoted, once. */
#ifdef COUNTS
#define STAY 1
byte sum[NODES];
/* the sum that the answer under way shows, the one that the newest answer has shown, ticks since that */
byte shown[CLIENTS], known[CLIENTS], since[CLIENTS];
#define HOLDER(i) (i == 0)
#define CLAIMER(i) (i > 0)
#define JOINS(i) false
#define PROMOTED(n) (n == 1)
#define wipeSum(n) sum[n] = 0
#define copySum(to,from) sum[to] = sum[from]
#define showSum(i,n) shown[i] = sum[n]
#define beginSum(i) known[i] = shown[i]; since[i] = 0; left[i] = (shown[i] < TTL -> TTL-shown[i] : 0)
#define forgetSum(i) known[i] = 0; since[i] = 0
#define endShown(i) shown[i] = 0
#define tickSum(i) if :: countLife[i] > 0 && since[i] < TTL -> since[i] = since[i]+1 :: else fi
#ifdef SUMANYHOW        /* planted: an addition does not compare the sum */
#define SAMESUM(i,n) true
#else
#define SAMESUM(i,n) (sum[n] == known[i])
#endif
#ifdef SUMTWICE         /* planted: a client that sees what another one has added adds its own, of the same time */
#define seeSum(i,n,added) if :: sum[n] == known[i] || added -> since[i] = 0 :: else fi; known[i] = sum[n]
#else
#define seeSum(i,n,added) if :: sum[n] != known[i] -> since[i] = 0 :: else fi; known[i] = sum[n]
#endif
/* add; the answer may be lost */
#define ADD(i,n) \
 :: d_step { since[i] > 0 && master(n) && !blessed(n) && SAME(i,n) -> o = 0; \
      if :: SAMESUM(i,n) && sum[n] < TTL -> sum[n] = (sum[n]+since[i] < TTL -> sum[n]+since[i] : TTL); o = 1 :: else fi; \
      seeSum(i,n,o); o = 0 } \
 :: d_step { since[i] > 0 && master(n) && !blessed(n) && SAME(i,n) && SAMESUM(i,n) && sum[n] < TTL -> \
      sum[n] = (sum[n]+since[i] < TTL -> sum[n]+since[i] : TTL) }
#else
#define HOLDER(i) true
#define CLAIMER(i) true
#define JOINS(i) true
#define PROMOTED(n) true
#define wipeSum(n) skip
#define copySum(to,from) skip
#define showSum(i,n) skip
#define beginSum(i) skip
#define forgetSum(i) skip
#define endShown(i) skip
#define tickSum(i) skip
#define ADD(i,n)
#endif

#define wipe(n) stored[n] = 0; next[n] = 0; tag[n] = 0; open[n] = 0; holder[n] = 0; wipeToken(n); wipeSum(n)
#define bless(n) stored[n] = life[n]; next[n] = 0; tag[n] = 0; open[n] = 0; holder[n] = 0; moveTokens(n); wipeSum(n)

#ifdef NOACK            /* planted: a renewal counts without an acknowledgement of a replica */
#define ACKED(i) true
#elif defined(OTHERACK) /* planted: an acknowledgement of an earlier write counts for a renewal */
#define ACKED(i) (acked[i] || once[at[i]])
#else
#define ACKED(i) acked[i]
#endif
#ifdef CLAIMNOACK       /* planted: the same for a claim: the answer to it is unproven */
#define CLAIMACKED(i) true
#elif defined(CLAIMOTHERACK)    /* an acknowledgement of an earlier write in the same life is as good for a claim */
#define CLAIMACKED(i) (acked[i] || once[at[i]])
#else
#define CLAIMACKED(i) acked[i]
#endif
#ifdef NOCOMPARE        /* planted: bless in whatever life the server is */
#define SAME(i,n) true
#elif defined(NOTAG)    /* planted: a claim has no tag */
#define SAME(i,n) (countLife[i] == life[n] && claimed(n))
#else
#define SAME(i,n) (countLife[i] == life[n] && claimed(n) && tag[n] == countTag[i])
#endif
#ifdef OWNTAG           /* planted: a later claimer writes a tag of its own: harmless, but see INVAIN */
#define KEEP(n) false
#else
#define KEEP(n) claimed(n)
#endif
#ifdef FIRSTSIGHT       /* planted: the count begins at the first answer of the new life */
#define SIGHT(i,n) count(i, life[n], tag[n]); done(i)
#else
#define SIGHT(i,n) skip
#endif
#ifdef TAKEOVER         /* planted: a claim of another client counts as one's own quarantine */
#define TAKE(i,n) :: d_step { session[i] == 0 && master(n) && !blessed(n) && claimed(n) -> count(i, life[n], tag[n]); left[i] = 0 }
#else
#define TAKE(i,n)
#endif
#ifdef EMPTYISNEW       /* planted: an empty store counts as a new one */
#define NEW(n) :: d_step { master(n) && stored[n] == 0 -> bless(n) }
#else
#define NEW(n)
#endif
#ifdef INVAIN           /* also asserted: a bless is not refused after a full count, unless data was lost in it */
#define VAIN(i,n) :: d_step { countLife[i] == life[n] && left[i] == 0 && master(n) && !blessed(n) && claimed(n) && tag[n] != countTag[i] -> assert(false) }
#else
#define VAIN(i,n)
#endif

#define ATNODE(i,n) \
 :: d_step { HOLDER(i) && request[i] == NONE && session[i] > 0 && mine(i,n) -> send(i, n, RENEW) } \
 :: d_step { session[i] > 0 && master(n) && !mine(i,n) -> over(i) }     /* refused */ \
 :: d_step { CLAIMER(i) && request[i] == NONE && session[i] == 0 && master(n) && blessed(n) -> send(i, n, OPEN); open[n] = open[n] | (1<<i); \
      if :: holder[n] == i+1 -> holder[n] = 0 :: else fi } \
 :: d_step { JOINS(i) && trust[i] > 0 && !holds[i] && mine(i,n) && holder[n] == 0 && again -> holder[n] = i+1; holds[i] = 1; check(i); token(n) } /* join, granted */ \
 :: d_step { JOINS(i) && holds[i] && mine(i,n) && holder[n] == i+1 -> holder[n] = 0; holds[i] = 0 } /* release */ \
 :: d_step { CLAIMER(i) && request[i] == NONE && session[i] == 0 && master(n) && !blessed(n) && (KEEP(n) || tags < TAGS) -> /* claim; the same one is written again */ \
      send(i, n, CLAIM); if :: KEEP(n) -> skip :: else -> tags++; next[n] = life[n]; tag[n] = tags; wipeSum(n) fi; withTag[i] = tag[n]; showSum(i,n); SIGHT(i,n) } \
 :: d_step { countLife[i] > 0 && left[i] == 0 && master(n) && !blessed(n) && SAME(i,n) -> bless(n) } \
 TAKE(i,n) NEW(n) VAIN(i,n) ADD(i,n)

proctype Client(byte i) {
 do
 ATNODE(i,0) ATNODE(i,1) ATNODE(i,2)
#if NODES > 3
 ATNODE(i,3)
#endif
 :: d_step { request[i] == RENEW && ACKED(i) -> if :: session[i] == inLife[i] -> trusts(i) :: else fi; done(i) }
 :: d_step { request[i] == OPEN && ACKED(i) -> session[i] = inLife[i]; trusts(i); done(i) }
 :: d_step { request[i] == CLAIM && CLAIMACKED(i) -> count(i, inLife[i], withTag[i]); beginSum(i); done(i) }
#if defined(SMALL) || defined(COUNTS)   /* fewer states: only claims are given up */
 :: d_step { request[i] == CLAIM -> done(i) }
#else
 :: d_step { request[i] != NONE -> done(i) }                            /* given up */
#endif
#ifndef SMALL           /* fewer states: no count is forgotten */
 :: d_step { countLife[i] > 0 -> countLife[i] = 0; countTag[i] = 0; left[i] = 0; forgetSum(i) } /* the process forgets its count */
#endif
#ifdef DRIFT
 :: d_step { left[i] > 0 && !gained[i] -> left[i] = left[i]-1; gained[i] = (left[i] > 0 -> 1 : 0) }
#endif
#ifdef REACH            /* not an error: shows that a grant in life REACH is reached */
 :: d_step { holds[i] && trust[i] > 0 && session[i] == REACH -> assert(false) }
#endif
 od }

#ifdef GOESBACK         /* planted: a node acknowledges in an older life than before */
#define FORWARD(r,m) true
#else
#define FORWARD(r,m) (life[m] >= newest[r])
#endif
#if defined(STAY)       /* fewer states: no master becomes a replica */
#define MAYFOLLOW(r) !master(r)
#elif defined(SMALL)    /* fewer states: none does before the last promotion */
#define MAYFOLLOW(r) (!master(r) || lives == LIVES)
#else
#define MAYFOLLOW(r) true
#endif
#define PAIR(r,m) \
 :: d_step { r != m && follows[r] == m && master(m) -> /* replica r has all that master m has */ \
      stored[r] = stored[m]; next[r] = next[m]; tag[r] = tag[m]; open[r] = open[m]; holder[r] = holder[m]; copyToken(r,m); copySum(r,m); \
      once[m] = 1; if :: newest[r] < life[m] -> newest[r] = life[m] :: else fi; \
      k = 0; do :: k < CLIENTS -> if :: request[k] != NONE && at[k] == m && inLife[k] == life[m] -> acked[k] = 1 :: else fi; k++ :: else -> break od; k = 0 } \
 :: d_step { r != m && follows[r] != m && master(m) && FORWARD(r,m) && MAYFOLLOW(r) -> \
      if :: master(r) -> drop(r); life[r] = 0; once[r] = 0 :: else fi; follows[r] = m }
#ifdef EMPTY            /* nodes restart with no data: a master gets a new life, a replica copies again */
#define RESTART(n) \
 :: d_step { master(n) && lives < LIVES -> drop(n); wipe(n); lives++; life[n] = lives; newest[n] = lives; once[n] = 0 } \
 :: d_step { !master(n) -> wipe(n) }
#else
#define RESTART(n)
#endif
#define NODE(n) \
 :: d_step { !master(n) && lives < LIVES && PROMOTABLE(n) && PROMOTED(n) -> lives++; follows[n] = n; life[n] = lives; newest[n] = lives; once[n] = 0 } \
 :: d_step { master(n) && flushes < FLUSHES -> flushes++; wipe(n) } \
 RESTART(n)

active proctype World() {
 d_step {
   k = 0; do :: k < NODES -> follows[k] = 0; stored[k] = 1; newest[k] = 1; k++ :: else -> break od; k = 0;
   life[0] = 1; open[0] = 1; holder[0] = 1; once[0] = 1; session[0] = 1; trust[0] = TTL-MARGIN; holds[0] = 1;
#ifdef TOKENS
   last[0] = clock(0); greatest = last[0];
#endif
 }
 atomic {
   run Client(0); run Client(1);
#ifdef COUNTS
   run Client(2)
#endif
 }
 do
 NODE(0) NODE(1) NODE(2) PAIR(0,1) PAIR(0,2) PAIR(1,0) PAIR(1,2) PAIR(2,0) PAIR(2,1)
#if NODES > 3
 NODE(3) PAIR(0,3) PAIR(1,3) PAIR(2,3) PAIR(3,0) PAIR(3,1) PAIR(3,2)
#endif
 :: d_step { TICK;
      k = 0; do :: k < CLIENTS ->
        if :: request[k] == RENEW || request[k] == OPEN -> age[k] = age[k]+1; if :: age[k] >= TTL-MARGIN -> done(k) :: else fi :: else fi;
        if :: trust[k] > 0 -> trust[k] = trust[k]-1; if :: trust[k] == 0 -> over(k) :: else fi :: else fi;
        if :: left[k] > 0 -> left[k] = left[k]-1 :: else fi;
        tickSum(k);
#ifdef DRIFT
        if :: left[k] == 0 -> gained[k] = 0 :: else fi;
#endif
        k++ :: else -> break od; k = 0 }
 od }
