"""Stock Kazoo on a line: a command a line on standard input, and for each of
them one line on standard output, when it is done.

    open ACTOR lock|persistent|read|write PATH  ->  ACTOR open
    acquire ACTOR                               ->  ACTOR acquired PATH CZXID SESSION
    release ACTOR                               ->  ACTOR released

Every actor has a client, a thread and a lock of its own. What fails is answered
by "ACTOR failed WHY". The program leaves when its input ends.
"""
import os
import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

saying = threading.Lock()


def say(*words):
    with saying:
        sys.stdout.write(" ".join(str(w).replace("\n", " ") for w in words) + "\n")
        sys.stdout.flush()


class Actor:
    def __init__(self, servers, timeout, name, kind, path):
        self.name, self.kind = name, kind
        self.todo = queue.Queue()
        self.client = KazooClient(hosts=servers, timeout=timeout)
        make = {"read": ReadLock, "write": WriteLock}.get(kind, Lock)
        self.lock = make(self.client, path, "kazoo-" + name)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            words = self.todo.get()
            try:
                say(self.name, *self.act(words))
            except BaseException as e:
                say(self.name, "failed", repr(e))

    def act(self, words):
        if words[0] == "open":
            self.client.start()
            return ["open"]
        if words[0] == "acquire":
            self.lock.acquire(ephemeral=self.kind != "persistent")
            path = self.lock.path + "/" + self.lock.node
            czxid = self.client.exists(path).czxid
            return ["acquired", path, czxid, "%x" % self.client.client_id[0]]
        if words[0] == "release":
            self.lock.release()
            return ["released"]
        raise ValueError("there is no " + words[0])


def main():
    actors = {}
    for line in sys.stdin:
        words = line.split()
        if words[0] == "open":
            actors[words[1]] = Actor(sys.argv[1], float(sys.argv[2]) / 1000, *words[1:])
        actors[words[1]].todo.put(words)
    os._exit(0)


main()
