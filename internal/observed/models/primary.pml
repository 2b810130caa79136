/* A primary and one standby, as of PostgreSQL: life, claim, quarantine and bless.
   See package observed. models_test.go has how to run it.

   Node 0 is the primary at first, and its life is 1. Node 1 is the standby; when it is promoted, its
   life is 2. Without other flags the standby is asynchronous, and node 0 is dead for good before node
   1 is promoted. The standby copies the present data of the primary at any time, so it holds some
   prefix of what the primary has done.

   Clients open sessions, renew, join, hold and release, claim, count, bless, and give up all of it at
   any time. Requests are applied when they are sent, and answered at any later time: a renewal that is
   applied later only gives a shorter trust window.
   Asserted: no client holds while another one trusts a session of another life, and no two hold. */
#ifndef TTL
#define TTL 2           /* ticks; also the greatest TTL of the store */
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#define NONE 0          /* of a request: */
#define RENEW 1
#define OPEN 2
#define TAGS 3          /* at most so many claims are written */

/* the nodes */
bit serves0 = 1, fenced0 = 0;   /* node 0 is a primary; it has been one that is fenced */
bit promoted = 0;       /* node 1 is a primary */
bit waits = 1;          /* with SYNC: node 0 waits for its standby */
byte mistakes = 0;      /* how often one of the planted mistakes of an operator was made */
byte tags = 0;          /* how many were given out */

/* what the nodes store: the blessed life, the tag of the claim (0: no claim), a bit for each client
   with a session, and the number of the holder (0: none) */
byte stored[2], tag[2], open[2], holder[2];

/* the clients: the life of the session (0: none), ticks in which the client trusts it */
byte session[CLIENTS], trust[CLIENTS];
bit holds[CLIENTS];
/* the renewal or opening under way, its node, ticks since it was sent, whether the node acknowledges it */
byte request[CLIENTS], at[CLIENTS], age[CLIENTS];
bit acked[CLIENTS];
/* the claim that is counted, by its life and tag, and the ticks until it may be blessed */
byte countLife[CLIENTS], countTag[CLIENTS], left[CLIENTS];

byte k, o;              /* of loops; always 0 between steps */

#define primary(n) (n == 0 -> serves0 : promoted)
#define life(n) (n+1)
#define blessed(n) (stored[n] == life(n))
#define mine(i,n) (primary(n) && blessed(n) && session[i] == life(n) && (open[n] & (1<<i)))
#define done(i) request[i] = NONE; at[i] = 0; age[i] = 0; acked[i] = 0
#define over(i) session[i] = 0; trust[i] = 0; holds[i] = 0; if :: request[i] == RENEW -> done(i) :: else fi
#define check(i) o = 0; do :: o < CLIENTS -> if :: o != i && trust[i] > 0 && trust[o] > 0 -> \
      assert(!((holds[i] || holds[o]) && session[o] != session[i])); \
      assert(!(holds[i] && holds[o])) :: else fi; o++ :: else -> break od; o = 0
#define trusts(i) if :: TTL-age[i] > trust[i] -> trust[i] = TTL-age[i]; check(i) :: else fi

#ifdef SYNC             /* node 0 acknowledges when node 1 has it; a promoted node 1 has no standby */
#define ATONCE(n) (n == 1 || !waits)
#else
#define ATONCE(n) true
#endif
#define send(i,n,what) request[i] = what; at[i] = n; age[i] = 0; acked[i] = ATONCE(n)
#ifdef NOWAIT           /* planted: bless without waiting */
#define COUNT 0
#else
#define COUNT TTL
#endif
#ifdef NOTAG            /* planted: a claim has no tag */
#define SAMETAG(i,n) true
#else
#define SAMETAG(i,n) (tag[n] == countTag[i])
#endif

#define ATNODE(i,n) \
 :: d_step { request[i] == NONE && session[i] > 0 && mine(i,n) -> send(i, n, RENEW) } \
 :: d_step { session[i] > 0 && primary(n) && !mine(i,n) -> over(i) }    /* refused */ \
 :: d_step { request[i] == NONE && session[i] == 0 && primary(n) && blessed(n) -> send(i, n, OPEN); open[n] = open[n] | (1<<i); \
      if :: holder[n] == i+1 -> holder[n] = 0 :: else fi } \
 :: d_step { trust[i] > 0 && !holds[i] && mine(i,n) && holder[n] == 0 -> holder[n] = i+1; holds[i] = 1; check(i) } /* join, granted */ \
 :: d_step { holds[i] && mine(i,n) && holder[n] == i+1 -> holder[n] = 0; holds[i] = 0 } /* release */ \
 :: d_step { request[i] == NONE && session[i] == 0 && primary(n) && !blessed(n) && (tag[n] > 0 || tags < TAGS) -> /* claim, or find one */ \
      if :: tag[n] == 0 -> tags++; tag[n] = tags :: else fi; countLife[i] = life(n); countTag[i] = tag[n]; left[i] = COUNT } \
 :: d_step { countLife[i] == life(n) && left[i] == 0 && primary(n) && !blessed(n) && tag[n] > 0 && SAMETAG(i,n) -> /* bless */ \
      stored[n] = life(n); tag[n] = 0; open[n] = 0; holder[n] = 0 }

proctype Client(byte i) {
 do
 ATNODE(i,0) ATNODE(i,1)
 :: d_step { request[i] == RENEW && acked[i] -> if :: session[i] == life(at[i]) -> trusts(i) :: else fi; done(i) }
 :: d_step { request[i] == OPEN && acked[i] -> session[i] = life(at[i]); trusts(i); done(i) }
#ifdef CANCEL           /* planted: a commit whose wait for the standby was cancelled counts */
 :: d_step { request[i] != NONE && !acked[i] -> acked[i] = 1 }
#endif
 :: d_step { request[i] != NONE -> done(i) }                            /* given up */
 :: d_step { countLife[i] > 0 -> countLife[i] = 0; countTag[i] = 0; left[i] = 0 }       /* the process forgets its count */
#ifdef REACH            /* not an error: shows that a grant in life 2 is reached */
 :: d_step { holds[i] && trust[i] > 0 && session[i] == 2 -> assert(false) }
#endif
 od }

#define copy(to,from) stored[to] = stored[from]; tag[to] = tag[from]; open[to] = open[from]; holder[to] = holder[from]
#define wipe(n) stored[n] = 0; tag[n] = 0; open[n] = 0; holder[n] = 0

active proctype World() {
 d_step { stored[0] = 1; stored[1] = 1; open[0] = 1; holder[0] = 1; session[0] = 1; trust[0] = TTL; holds[0] = 1 }
 atomic {
   k = 0; do :: k < CLIENTS -> run Client(k); k++ :: else -> break od; k = 0
 }
 do
 :: d_step { !promoted && serves0 -> copy(1,0);                         /* the standby has all */
      k = 0; do :: k < CLIENTS -> if :: request[k] != NONE && at[k] == 0 -> acked[k] = 1 :: else fi; k++ :: else -> break od; k = 0 }
 :: d_step { serves0 -> serves0 = 0; fenced0 = 1 }                      /* dies, or is fenced */
#ifdef UNFENCED         /* node 0 may go on as a primary; planted without SYNC */
 :: d_step { !promoted -> promoted = 1 }
#else
 :: d_step { !promoted && fenced0 -> promoted = 1 }
#endif
#ifdef ZOMBIE           /* planted: a fenced primary is started again as one */
 :: d_step { fenced0 && !serves0 && mistakes < 1 -> mistakes++; serves0 = 1 }
#endif
#ifdef ROLLBACK         /* planted: the data go back to an older state, and the life does not change */
 :: d_step { serves0 && mistakes < 1 -> mistakes++; open[0] = 0; holder[0] = 0 }
#endif
#ifdef EMPTIED          /* the tables of a primary are emptied, and the life and the claim with them */
 :: d_step { serves0 && mistakes < 2 -> mistakes++; wipe(0) }
#endif
#ifdef REBUILD          /* planted: the promoted node is made a standby of node 0 again */
 :: d_step { promoted && serves0 && mistakes < 1 -> mistakes++; promoted = 0; copy(1,0) }
#endif
#ifdef DEGRADE          /* planted: node 0 no longer waits for its standby */
 :: d_step { waits -> waits = 0 }
#endif
 :: d_step { true ->                                                    /* a tick */
      k = 0; do :: k < CLIENTS ->
        if :: request[k] != NONE -> age[k] = age[k]+1; if :: age[k] >= TTL -> done(k) :: else fi :: else fi;
        if :: trust[k] > 0 -> trust[k] = trust[k]-1; if :: trust[k] == 0 -> over(k) :: else fi :: else fi;
        if :: left[k] > 0 -> left[k] = left[k]-1 :: else fi;
        k++ :: else -> break od; k = 0 }
 od }
