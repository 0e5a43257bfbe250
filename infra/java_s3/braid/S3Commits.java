package braid;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;

import io.delta.storage.S3SingleDriverLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.S3Exception;

/**
 * Delta's log in an S3 store: a commit is there whole or not at all, and never instead of another one.
 *
 * Delta's own store for S3 looks whether a version is taken and then uploads; it is safe within one process, because
 * that holds a lock. Here the upload itself says that it must not replace anything (If-None-Match), and the store
 * refuses it when the name is taken, whoever else commits.
 */
public final class S3Commits extends S3SingleDriverLogStore {
    private static final int TAKEN = 412;
    private static final int CONFLICT = 409;
    private static final int ATTEMPTS = 5;

    public S3Commits(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> lines, Boolean overwrite, Configuration configuration)
        throws IOException {
        if (overwrite) {
            super.write(path, lines, true, configuration);
            return;
        }
        S3AFileSystem system = s3(path, configuration);
        S3Client client = system.getS3AInternals().getAmazonS3Client("commit");
        String bucket = system.getBucket();
        String key = system.pathToKey(system.makeQualified(path));
        byte[] content = joined(lines);
        for (int attempt = 1; ; attempt++) {
            try {
                client.putObject(
                    request -> request.bucket(bucket).key(key).ifNoneMatch("*"), RequestBody.fromBytes(content));
                return;
            } catch (S3Exception refused) {
                // Two uploads of one name at the same moment: S3 asks to try again, and then says which of them won.
                if (refused.statusCode() == CONFLICT && attempt < ATTEMPTS) {
                    continue;
                }
                if (refused.statusCode() != TAKEN && refused.statusCode() != CONFLICT) {
                    throw new IOException("a commit could not be written to " + path, refused);
                }
                // The client repeats an upload whose answer was lost, and is then refused because of its own.
                if (Arrays.equals(content, there(client, bucket, key))) {
                    return;
                }
                throw new FileAlreadyExistsException(path.toString());
            } catch (SdkException failed) {
                throw new IOException("a commit could not be written to " + path, failed);
            }
        }
    }

    private static byte[] there(S3Client client, String bucket, String key) throws IOException {
        try {
            return client.getObjectAsBytes(request -> request.bucket(bucket).key(key)).asByteArray();
        } catch (SdkException failed) {
            throw new IOException("a commit was refused, and s3a://" + bucket + "/" + key + " cannot be read", failed);
        }
    }

    private static byte[] joined(Iterator<String> lines) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        while (lines.hasNext()) {
            content.writeBytes(lines.next().getBytes(StandardCharsets.UTF_8));
            content.write('\n');
        }
        return content.toByteArray();
    }

    private static S3AFileSystem s3(Path path, Configuration configuration) throws IOException {
        FileSystem system = path.getFileSystem(configuration);
        if (system instanceof S3AFileSystem found) {
            return found;
        }
        throw new IOException("commits to " + path + " need the file system of s3a:// addresses, not " + system);
    }
}
