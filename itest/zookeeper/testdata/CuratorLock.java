import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * Stock Curator on a line: a command a line on standard input, and for each of
 * them one line on standard output, when it is done.
 *
 * <pre>
 *   open ACTOR KIND PATH [SERVERS]  ->  ACTOR open
 *   acquire ACTOR                   ->  ACTOR acquired PATH CZXID SESSION
 *   release ACTOR                   ->  ACTOR released
 *   revoke ACTOR PATH               ->  ACTOR revoked
 *   leader ACTOR                    ->  ACTOR leader ID
 * </pre>
 *
 * A KIND is mutex, read, write, latch (LeaderLatch) or selector (LeaderSelector);
 * the last two have the actor's name for an id, and know who leads.
 *
 * Every actor has a client, a thread and a lock of its own. What fails is
 * answered by "ACTOR failed WHY". The program leaves when its input ends.
 */
public class CuratorLock {
    private static final Map<String, Actor> actors = new HashMap<>();

    /** Tells its path, which Curator keeps to itself. */
    private static class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String path() {
            return getLockPath();
        }
    }

    /** Leads as a lock is held. */
    private abstract static class Candidate implements InterProcessLock {
        abstract String leader() throws Exception;

        @Override
        public boolean acquire(long time, TimeUnit unit) {
            throw new UnsupportedOperationException();
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            throw new UnsupportedOperationException();
        }
    }

    private static class Latch extends Candidate {
        private final LeaderLatch latch;

        Latch(CuratorFramework client, String path, String id) {
            latch = new LeaderLatch(client, path, id);
        }

        @Override
        public void acquire() throws Exception {
            latch.start();
            latch.await();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }

        @Override
        String leader() throws Exception {
            return latch.getLeader().getId();
        }
    }

    private static class Selector extends Candidate {
        private final CountDownLatch led = new CountDownLatch(1);
        private final CountDownLatch done = new CountDownLatch(1);
        private final LeaderSelector selector;

        Selector(CuratorFramework client, String path, String id) {
            selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws Exception {
                    led.countDown();
                    done.await();
                }
            });
            selector.setId(id);
        }

        @Override
        public void acquire() throws Exception {
            selector.start();
            led.await();
        }

        @Override
        public void release() {
            done.countDown();
        }

        @Override
        String leader() throws Exception {
            return selector.getLeader().getId();
        }
    }

    private static class Actor {
        final String name;
        final CuratorFramework client;
        final InterProcessLock lock;
        final ExecutorService thread = Executors.newSingleThreadExecutor();

        Actor(String servers, int timeout, String name, String kind, String path) {
            this.name = name;
            client = CuratorFrameworkFactory.newClient(servers, timeout, timeout, new RetryOneTime(1));
            client.start();
            switch (kind) {
                case "read":
                    lock = new InterProcessReadWriteLock(client, path).readLock();
                    break;
                case "write":
                    lock = new InterProcessReadWriteLock(client, path).writeLock();
                    break;
                case "latch":
                    lock = new Latch(client, path, name);
                    break;
                case "selector":
                    lock = new Selector(client, path, name);
                    break;
                default:
                    lock = new Mutex(client, path);
            }
        }

        String act(String[] words) throws Exception {
            switch (words[0]) {
                case "open":
                    client.blockUntilConnected();
                    return "open";
                case "acquire":
                    lock.acquire();
                    String path = "?";
                    long czxid = 0;
                    if (lock instanceof Mutex) {
                        path = ((Mutex) lock).path();
                        czxid = client.checkExists().forPath(path).getCzxid();
                    }
                    return "acquired " + path + " " + czxid + " "
                            + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
                case "release":
                    lock.release();
                    return "released";
                case "leader":
                    return "leader " + ((Candidate) lock).leader();
                case "revoke":
                    Revoker.attemptRevoke(client, words[2]);
                    return "revoked";
                default:
                    throw new IllegalArgumentException("there is no " + words[0]);
            }
        }
    }

    private static synchronized void say(String actor, String what) {
        System.out.println(actor + " " + what.replace('\n', ' '));
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("open")) {
                actors.put(words[1], new Actor(words.length > 4 ? words[4] : args[0], Integer.parseInt(args[1]), words[1], words[2], words[3]));
            }
            Actor actor = actors.get(words[1]);
            actor.thread.execute(() -> {
                try {
                    say(actor.name, actor.act(words));
                } catch (Throwable e) {
                    say(actor.name, "failed " + e);
                }
            });
        }
        Runtime.getRuntime().halt(0);
    }
}
