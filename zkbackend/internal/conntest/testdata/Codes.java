import org.apache.zookeeper.KeeperException;

/** Prints every error code of the protocol with its name. */
public class Codes {
    public static void main(String[] args) {
        for (KeeperException.Code c : KeeperException.Code.values()) {
            System.out.println(c.intValue() + " " + c.name());
        }
    }
}
